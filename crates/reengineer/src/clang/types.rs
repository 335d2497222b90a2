//! What libclang says of types, by functions that are safe to call: every type there is in [`crate::clang`] is of a unit that is alive,
//! as its cursors are.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::cursor::{children, kind, lexical_parent_of, owned, parent_of};

/// The type of an expression or a declaration.
pub(super) fn type_of(cursor: CXCursor) -> CXType {
    // SAFETY: a cursor of a living unit.
    unsafe { clang_getCursorType(cursor) }
}

/// A type without the names that typedefs give it.
pub(super) fn canonical_type(of: CXType) -> CXType {
    // SAFETY: a type of a living unit, as all here.
    unsafe { clang_getCanonicalType(of) }
}

/// What sort of type it is, whatever its name.
pub(super) fn kind_of(of: CXType) -> CXTypeKind {
    canonical_type(of).kind
}

/// A type as it is written.
pub(super) fn type_text(of: CXType) -> String {
    // SAFETY: a type of a living unit.
    owned(unsafe { clang_getTypeSpelling(of) })
}

/// Where a structure, a union, an enumeration or a typedef is declared.
pub(super) fn declaration_of(of: CXType) -> CXCursor {
    // SAFETY: a type of a living unit.
    unsafe { clang_getTypeDeclaration(of) }
}

/// What an array is made of.
pub(super) fn element_of(array: CXType) -> CXType {
    // SAFETY: a type of a living unit.
    unsafe { clang_getArrayElementType(array) }
}

/// What a pointer points to, as it is written.
pub(super) fn pointee_of(pointer: CXType) -> CXType {
    // SAFETY: a type of a living unit.
    unsafe { clang_getPointeeType(pointer) }
}

/// What a type of functions returns.
pub(super) fn result_of(of: CXType) -> CXType {
    // SAFETY: a type of a living unit.
    unsafe { clang_getResultType(of) }
}

/// What a function returns.
pub(super) fn result(function: CXCursor) -> CXType {
    // SAFETY: a cursor of a living unit.
    unsafe { clang_getCursorResultType(function) }
}

/// The size in bytes; less than 0 if it is not known.
pub(super) fn size_of(of: CXType) -> i64 {
    // SAFETY: a type of a living unit.
    unsafe { clang_Type_getSizeOf(of) }
}

/// A type without `const` and the like.
pub(super) fn unqualified(of: CXType) -> CXType {
    // SAFETY: a type of a living unit.
    unsafe { clang_getUnqualifiedType(of) }
}

pub(super) fn is_const_type(of: CXType) -> bool {
    // SAFETY: a type of a living unit.
    unsafe { clang_isConstQualifiedType(of) != 0 }
}

pub(super) fn is_volatile_type(of: CXType) -> bool {
    // SAFETY: a type of a living unit.
    unsafe { clang_isVolatileQualifiedType(of) != 0 }
}

pub(super) fn are_same(one: CXType, other: CXType) -> bool {
    // SAFETY: types of a living unit.
    unsafe { clang_equalTypes(one, other) != 0 }
}

/// What a pointer points to, whatever its name.
pub(super) fn pointee(of: CXType) -> Option<CXType> {
    let canonical = canonical_type(of);
    let inner = || canonical_type(unqualified(pointee_of(canonical)));
    (canonical.kind == CXType_Pointer).then(inner)
}

/// A type, or of an array what it is made of, without other names.
pub(super) fn element(of: CXType) -> CXType {
    let mut at = canonical_type(of);
    while is_array(at) {
        at = canonical_type(element_of(at));
    }
    at
}

/// What a type ends in, behind all pointers and arrays, and whether there is a pointer.
fn innermost(of: CXType) -> (CXType, bool) {
    let mut at = element(of);
    let mut is_pointer = false;
    while let Some(inner) = pointee(at) {
        at = element(inner);
        is_pointer = true;
    }
    (at, is_pointer)
}

/// The structure that a pointer points to, or a pointer to such pointers, or an array of them.
pub(super) fn record_below(of: CXType) -> Option<CXType> {
    let (at, is_pointer) = innermost(of);
    (is_pointer && at.kind == CXType_Record).then_some(at)
}

/// Whether a type is a pointer, or one to pointers or an array of them, which does not say what structure there is.
pub(super) fn is_blank(of: CXType) -> bool {
    let (at, is_pointer) = innermost(of);
    is_pointer && at.kind != CXType_Record && !is_function(at)
}

pub(super) fn is_array(of: CXType) -> bool {
    matches!(kind_of(of), CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray)
}

pub(super) fn is_function(of: CXType) -> bool {
    matches!(of.kind, CXType_FunctionProto | CXType_FunctionNoProto)
}

/// Whether a type is neither a pointer nor an array or a structure, which may have such in them.
pub(super) fn is_number(of: CXType) -> bool {
    !matches!(kind_of(of), CXType_Pointer | CXType_Record) && !is_array(of) && !is_function(of)
}

/// Whether functions of this type take more arguments than have types.
pub(super) fn is_variadic(of: CXType) -> bool {
    // SAFETY: a type of a living unit.
    unsafe { clang_isFunctionTypeVariadic(of) != 0 }
}

/// The types of the arguments that functions of this type take; none if that is not known.
pub(super) fn parameters(of: CXType) -> Vec<CXType> {
    // SAFETY: a type of a living unit.
    let count = u32::try_from(unsafe { clang_getNumArgTypes(of) }).unwrap_or(0);
    // SAFETY: as above, and fewer than there are.
    (0..count).map(|at| unsafe { clang_getArgType(of, at) }).collect()
}

/// Whether the type of a function says that it does not return: libclang has no other way to ask than by its text, whose end may also
/// be that of a function which is returned a pointer to.
pub(super) fn is_type_without_return(of: CXType) -> bool {
    let of = canonical_type(of);
    let says_so = |of| type_text(of).trim_end().ends_with("__attribute__((noreturn))");
    is_function(of) && says_so(of) && !says_so(canonical_type(result_of(of)))
}

/// Whether a type is an array of variable size, or is made of one.
pub(super) fn is_variably_made(of: CXType) -> bool {
    let canonical = canonical_type(of);
    match canonical.kind {
        CXType_VariableArray => true,
        CXType_Pointer => is_variably_made(pointee_of(canonical)),
        CXType_ConstantArray | CXType_IncompleteArray => is_variably_made(element_of(canonical)),
        _ => false,
    }
}

/// Whether a member of a type, or an element, is `const`, so that it cannot be assigned to as a whole.
pub(super) fn has_constants(of: CXType) -> bool {
    let canonical = canonical_type(of);
    let is_constant = |of: CXType| has_constants(of) || is_const_type(canonical_type(of));
    match canonical.kind {
        CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray => {
            is_constant(element_of(canonical))
        }
        CXType_Record => {
            let fields = children(declaration_of(canonical)).into_iter();
            fields.filter(|child| kind(*child) == CXCursor_FieldDecl).any(|field| is_constant(type_of(field)))
        }
        _ => false,
    }
}

/// Whether a type is written by means of a typedef that is a function's own.
pub(super) fn has_inner_name(of: CXType) -> bool {
    match of.kind {
        CXType_Pointer => has_inner_name(pointee_of(of)),
        CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray => {
            has_inner_name(element_of(of))
        }
        // SAFETY: a type of a living unit.
        CXType_Elaborated => has_inner_name(unsafe { clang_Type_getNamedType(of) }),
        CXType_Typedef => is_of_a_function(declaration_of(of)),
        _ => false,
    }
}

/// Whether a type, or what it is made of, is declared inside of a function or has no name.
pub(super) fn has_no_name(of: CXType) -> bool {
    let canonical = canonical_type(of);
    match canonical.kind {
        CXType_Pointer => has_no_name(pointee_of(canonical)),
        CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray => {
            has_no_name(element_of(canonical))
        }
        CXType_Record | CXType_Enum => {
            let declaration = declaration_of(canonical);
            let around = kind(parent_of(declaration));
            let is_inside = matches!(around, CXCursor_FunctionDecl | CXCursor_CompoundStmt);
            // SAFETY: a cursor of a living unit.
            let is_nameless = unsafe { clang_Cursor_isAnonymous(declaration) } != 0;
            // A nameless type that a typedef names at the top of the file has that name.
            let is_typedef = of.kind == CXType_Typedef || of.kind == CXType_Elaborated;
            is_inside || is_nameless && !is_typedef
        }
        _ => false,
    }
}

/// Whether a declaration of something else than a local variable is a function's own.
pub(super) fn is_of_a_function(mut declaration: CXCursor) -> bool {
    if matches!(kind(declaration), CXCursor_FunctionDecl | CXCursor_VarDecl) {
        // It is the file's whatever block declares it.
        declaration = lexical_parent_of(declaration);
        return kind(declaration) == CXCursor_FunctionDecl;
    }
    // What is declared in a structure or an enumeration in a function is a few steps away from that.
    for _ in 0..16 {
        declaration = parent_of(declaration);
        match kind(declaration) {
            CXCursor_FunctionDecl => return true,
            CXCursor_StructDecl | CXCursor_UnionDecl | CXCursor_EnumDecl => {}
            _ => return false,
        }
    }
    true
}

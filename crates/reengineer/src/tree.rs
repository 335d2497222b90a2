//! A function of a C file as an owned tree: what the analysis works on, free of libclang.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use crate::vocabulary::Action;

/// One function with a body.
#[derive(Debug)]
pub(crate) struct Function {
    /// Its name.
    pub name: String,
    /// Where its definition is in the file, in bytes.
    pub range: Range<usize>,
    /// Its body, a [`Kind::Compound`].
    pub body: Node,
    /// The variables that it declares, its parameters among them.
    pub locals: HashMap<Variable, Local>,
    /// Some of it is in another file, which an `#include` brings in: the ranges of that are of what is before it.
    pub is_elsewhere: bool,
    /// It begins in a macro that has its `{`, or another declaration, too.
    pub begins_in_macro: bool,
    /// The names of the file's variables that are arrays, and those of members with a dot in front.
    pub arrays: HashSet<String>,
    /// Strings, members and names made of others that macros have, and the text of the macro.
    pub made: Vec<(Range<usize>, String)>,
}

/// A variable of a function: its name and where it is declared. Two blocks may have variables of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Variable {
    /// The name.
    pub name: String,
    /// The offset of the declaration in the file, in bytes.
    pub declared: usize,
}

/// What is to be known of a local variable.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    /// Its type, as `__typeof__` takes it.
    pub type_name: String,
    /// Of what sort the type is.
    pub shape: Shape,
    /// A number or a pointer, and nothing else than the function's own steps changes it.
    pub is_plain: bool,
    /// `static` or `extern`.
    pub is_static: bool,
    /// Each thread has its own.
    pub is_of_thread: bool,
    /// `register`: it has no address.
    pub is_register: bool,
    /// `const`.
    pub is_const: bool,
    /// Of what is `const` and nothing else: the type without that, as `__typeof__` takes it.
    pub plain_type: Option<String>,
    /// It cannot be assigned to, because a member or an element is `const`.
    pub has_constants: bool,
    /// How it is aligned, as its declaration says it.
    pub alignment: Vec<String>,
    /// It has an attribute that would not come with it to another place.
    pub has_attributes: bool,
    /// A function is called when its scope is left.
    pub has_cleanup: bool,
}

/// What matters of a local variable's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Can be copied.
    Value,
    /// An array of constant size.
    Array,
    /// An array of variable size.
    VariableArray,
    /// The type, or one that it is made of, has no name outside of the function.
    Unnamed,
}

/// A statement or an expression.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// What it is.
    pub kind: Kind,
    /// The text that it comes from, in bytes; of what comes from a macro, the whole expansion.
    pub range: Range<usize>,
    /// Whether its first token is in the body of a macro, and not in an argument of one.
    pub from_macro: bool,
    /// Whether it is in an argument of a macro.
    pub in_argument: bool,
    /// What it may do with an address.
    pub gives: Gives,
    /// A call that does not return.
    pub never_returns: bool,
    /// Of a call in the name of a lock or a condition that does nothing but compute its result: what it reads.
    pub computes: Option<Reads>,
    /// What it consists of, in the order of the text.
    pub children: Vec<Node>,
}

/// What a call that does nothing but compute reads besides its arguments and constants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// Members of structures, as [`Node::place`] names them.
    pub members: BTreeSet<String>,
    /// What its arguments point to.
    pub pointees: bool,
}

/// What an expression may do with the address of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// It is in parentheses only.
    Same,
    /// An array becomes the address of its first element, without a word of the program's.
    Decayed,
    /// Its type can have an address: a pointer, a structure.
    Address,
    /// Its type has none.
    Value,
}

/// What a [`Node`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `{ … }`
    Compound,
    /// `if`: the condition, then one or two statements.
    If,
    /// `while`: the condition, the body.
    While,
    /// `do`: the body, the condition.
    Do,
    /// `for`: whatever of the head there is, the body. Whether it has a condition.
    For {
        /// Without one it ends by `break` and the like only.
        is_endless: bool,
    },
    /// `switch`: the value, the body.
    Switch,
    /// `case` or `default`: values, the statement.
    Case {
        /// `default`
        is_default: bool,
    },
    /// A label, and the statement behind it.
    Label(String),
    /// `goto`
    Goto(String),
    /// `goto *`
    ComputedGoto,
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `return`
    Return,
    /// Declarations, each a [`Kind::Declaration`] or something that is no variable.
    Declarations,
    /// The declaration of a variable.
    Declaration(Variable),
    /// A call of the function of this name (empty: through a pointer). The first child is what is called.
    Call(String),
    /// The use of a local variable.
    Local(Variable),
    /// The use of anything else that has a name.
    Name(String),
    /// The use of a type, a constant, a function or a variable of the program that is declared in a function, by its name and where that
    /// is.
    InnerName(Variable),
    /// The use of a variable of which each thread has its own.
    ThreadLocal(String),
    /// A member of the first child, of this name.
    Member {
        /// Its name.
        name: String,
        /// `->`
        is_arrow: bool,
    },
    /// `__func__`, or another word for the name of the function around.
    FunctionName(String),
    /// `a[b]`
    Subscript,
    /// An operator with one operand.
    Unary(Unary),
    /// An operator with two operands, as it is spelt.
    Binary(String),
    /// A literal: an integer's value, with the letters that its type has as a suffix; empty if that is not known.
    Literal(String),
    /// A macro that takes or releases a lock. The child is the lock, a [`Kind::Text`].
    Macro(Macro),
    /// An expression as text. The local variables that it names are its children.
    Text(String),
    /// `(TYPE){ … }`
    CompoundLiteral,
    /// `{ … }` as a value.
    List,
    /// Parentheses, or a conversion that is not spelt.
    Transparent,
    /// A conversion that is spelt.
    Cast(String),
    /// `a ? b : c`
    Conditional,
    /// `sizeof` of an expression.
    Size,
    /// Inline assembly.
    Assembly,
    /// `({ … })`
    StatementExpression,
    /// `;`
    Empty,
    /// Any other expression.
    Other,
}

/// A macro that takes or releases a lock, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Macro {
    /// Its name.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// The call, with its closing parenthesis, that runs a section of its lock.
    pub by: Option<String>,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    /// `&`
    Address,
    /// `*`
    Dereference,
    /// `++`, `--`, before or behind.
    Step,
    /// `-`, `!`, `~`, …
    Pure(&'static str),
}

impl Node {
    /// This node and all below it, in the order of the text.
    pub(crate) fn walk(&self) -> impl Iterator<Item = &Node> {
        let mut stack = vec![self];
        std::iter::from_fn(move || {
            let node = stack.pop()?;
            stack.extend(node.children.iter().rev());
            Some(node)
        })
    }

    /// What is inside of parentheses and conversions that are not spelt.
    #[must_use]
    pub(crate) fn bare(&self) -> &Node {
        let mut node = self;
        while let (Kind::Transparent, [child]) = (&node.kind, node.children.as_slice()) {
            node = child;
        }
        node
    }

    /// The name of the function that a call is of, empty if it goes through a pointer; `None` if it is no call.
    #[must_use]
    pub(crate) fn called(&self) -> Option<&str> {
        match &self.kind {
            Kind::Call(name) => Some(name),
            _ => None,
        }
    }

    /// A name for the memory that an expression stands for: a variable's, a member's with a dot in front, and with a star in front that of
    /// the pointer or the array that it is behind. Of all structures a member has the same name.
    pub(crate) fn place(&self) -> Option<String> {
        let node = self.bare();
        match (&node.kind, node.children.as_slice()) {
            (Kind::Local(variable), _) => Some(variable.name.clone()),
            (Kind::Name(name) | Kind::ThreadLocal(name), _) => Some(name.clone()),
            (Kind::Member { name, .. }, _) => Some(format!(".{name}")),
            (Kind::Subscript, [of, _]) | (Kind::Unary(Unary::Dereference), [of]) => of.pointee(),
            (Kind::Cast(_), [.., of]) => of.place(),
            _ => None,
        }
    }

    /// The same of the memory that a pointer points to.
    pub(crate) fn pointee(&self) -> Option<String> {
        let node = self.bare();
        match (&node.kind, node.children.as_slice()) {
            (Kind::Unary(Unary::Address), [of]) => of.place(),
            (Kind::Cast(_), [.., of]) => of.pointee(),
            (Kind::Binary(_), [one, other]) => one.pointee().or_else(|| other.pointee()),
            _ => node.place().map(|place| format!("*{place}")),
        }
    }

    /// The names of the memory that an expression is read from, with those of what it is a part of.
    pub(crate) fn places(&self) -> Vec<String> {
        let node = self.bare();
        let around = match (&node.kind, node.children.as_slice()) {
            (Kind::Member { is_arrow: false, .. }, [of]) => of.places(),
            (Kind::Member { is_arrow: true, .. }, [of]) => of.pointee().into_iter().collect(),
            _ => Vec::new(),
        };
        node.place().into_iter().chain(around).collect()
    }

    /// The expression as C text with all parentheses, from the tree alone; `None` if it has a part that is not understood, or that has
    /// an effect.
    #[must_use]
    pub(crate) fn expression(&self) -> Option<String> {
        let child = |number: usize| self.children.get(number)?.expression();
        Some(match &self.kind {
            Kind::Transparent if self.children.len() == 1 => child(0)?,
            Kind::Local(variable) => variable.name.clone(),
            Kind::Name(name) | Kind::ThreadLocal(name) => name.clone(),
            Kind::InnerName(inner) => inner.name.clone(),
            Kind::Literal(text) if !text.is_empty() => text.clone(),
            Kind::Text(text) => text.clone(),
            Kind::Member { name, is_arrow } => {
                format!("{}{}{name}", child(0)?, if *is_arrow { "->" } else { "." })
            }
            Kind::Subscript => format!("{}[{}]", child(0)?, child(1)?),
            Kind::Unary(Unary::Address) => match self.children.first()?.bare() {
                Node { kind: Kind::Unary(Unary::Dereference), children, .. } => {
                    children.first()?.expression()?
                }
                _ => format!("(&{})", child(0)?),
            },
            Kind::Unary(Unary::Dereference) => match self.children.first()?.bare() {
                Node { kind: Kind::Unary(Unary::Address), children, .. } => children.first()?.expression()?,
                _ => format!("(*{})", child(0)?),
            },
            Kind::Unary(Unary::Pure(operator)) => format!("({operator}{})", child(0)?),
            Kind::Binary(operator) if !is_assignment(operator) => {
                format!("({} {operator} {})", child(0)?, child(1)?)
            }
            Kind::Cast(type_name) => format!("(({type_name}){})", self.children.last()?.expression()?),
            Kind::Call(name) if self.computes.is_some() => {
                let given = self.children.iter().skip(1).map(Self::expression).collect::<Option<Vec<_>>>()?;
                format!("{name}({})", given.join(", "))
            }
            Kind::Conditional => format!("({} ? {} : {})", child(0)?, child(1)?, child(2)?),
            Kind::Size => format!("sizeof({})", child(0)?),
            _ => return None,
        })
    }
}

/// The value of an integer literal, without its type.
#[must_use]
pub(crate) fn value_of(literal: &str) -> &str {
    literal.trim_end_matches(['u', 'l'])
}

/// Whether an operator with two operands writes the first.
#[must_use]
pub(crate) fn is_assignment(operator: &str) -> bool {
    operator.ends_with('=') && !matches!(operator, "==" | "!=" | "<=" | ">=")
}

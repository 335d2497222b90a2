//! The rules by which sections are refused, one by one: a test switches each off and must notice.
//!
//! Some refusals have no rule, because nothing could be written in the section's place: where the statement that takes the lock is in no
//! block ([`Refusal::NoBlock`]) no text begins that could become the closure; where the call that takes it is part of an expression
//! ([`Refusal::InsideExpression`]), or the lock has no name ([`Refusal::NamesLock`]), no statement could become the request; and where too
//! many combinations of locks may be held ([`Refusal::Exploded`]), it is not known where the section ends.
//!
//! [`Refusal::NoBlock`]: crate::Refusal::NoBlock
//! [`Refusal::InsideExpression`]: crate::Refusal::InsideExpression
//! [`Refusal::NamesLock`]: crate::Refusal::NamesLock
//! [`Refusal::Exploded`]: crate::Refusal::Exploded

/// A rule that a section is refused by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The lock is not taken while it is held.
    TakenAgain,
    /// The lock is released before its block ends.
    Leaves,
    /// Each step runs with the lock or without it.
    Mixed,
    /// Nothing jumps into a section.
    EnteredElsewhere,
    /// Locks nest.
    Nested,
    /// What follows a release stays outside.
    TailReturns,
    /// A wait has its own lock only.
    Waits,
    /// A condition's name means the same one before the section.
    Fixed,
    /// A wait beside other pauses is in a loop.
    Loops,
    /// No other lock is held over a pause.
    Pauses,
    /// The text of a variable's name means no other one.
    OneMeaning,
    /// The lock's name means the same lock at the release.
    LockChanges,
    /// What memory that name is read from has the same then.
    LockIsRead,
    /// Nothing inside means the caller's frame, thread or process.
    BoundToCaller,
    /// Nothing inside asks for the thread that it runs in.
    AnyThread,
    /// Nor does a function that is called inside.
    CalleeAsks,
    /// No function that is called inside gives the lock up.
    CalleeReleases,
    /// Nor one that goes on further up, or ends its thread.
    CalleeLeaves,
    /// Nor one that keeps a lock which it takes, or releases one of another's.
    CalleeKeeps,
    /// Nothing inside takes a mutex that knows the thread which holds it.
    Owned,
    /// What each lock call inside does is known: it is a statement of its own, and its lock has a name.
    Clear,
    /// There is no assembly and no computed goto.
    Opaque,
    /// Lock and release are two statements.
    OneMacro,
    /// A macro that takes or releases a lock, or waits, does nothing else, and what is moved is all that its text stands for.
    AsWritten,
    /// A function begins in the file's text, or in a macro that declares nothing else: that would not be there in front of the macro.
    Begins,
    /// A macro inside that may return from the function, because it takes another lock, does not stay in a closure.
    MacrosInside,
    /// A variable that a macro's body names can be copied.
    Copied,
    /// No text is made of a variable's name that is put another in the place of.
    Spelt,
    /// All commands that compile the file make the same of it.
    Commands,
    /// Types have names at the top of the file.
    NamedTypes,
    /// No array of variable size comes from around.
    VariableArrays,
    /// A declaration that is used behind can be an assignment.
    Hoisted,
    /// What is declared inside outlives a pause.
    Survives,
    /// Nothing outside has the address of what is declared inside.
    Outlives,
    /// What is declared elsewhere keeps its attributes.
    Attributes,
    /// Scopes end after the release.
    Cleanup,
    /// `#if` and `#endif` stay together.
    Directives,
    /// No macro is defined in the function before.
    Defined,
    /// The compiler finds no error in what is read.
    Errors,
    /// What is no UTF-8 in a file is there when the file is written.
    Legible,
    /// A registered wrapper does nothing but take or release a lock.
    Wrappers,
    /// Nothing that waits is cancelled.
    Cancels,
    /// A mutex of which a use is not understood stays one.
    Understood,
    /// Another name of a mutex's type that is used otherwise than to declare changes for all of its declarations.
    Whole,
    /// Mutexes of structures that may become one another by way of a `void *` change together.
    Veiled,
    /// What becomes another structure may become a third one from there.
    Between,
    /// So do those of structures that pointers in such structures point to, or pointers of a union.
    Holders,
    /// What a function gets by its variable arguments is what others pass by theirs.
    Arguments,
    /// A value goes through expressions that have several, and through `({ })`.
    Values,
    /// A section that is not converted holds the delegate only if that was asked for.
    Holds,
}

impl Rule {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::TakenAgain,
        Self::Leaves,
        Self::Mixed,
        Self::EnteredElsewhere,
        Self::Nested,
        Self::TailReturns,
        Self::Waits,
        Self::Fixed,
        Self::Loops,
        Self::Pauses,
        Self::OneMeaning,
        Self::LockChanges,
        Self::LockIsRead,
        Self::BoundToCaller,
        Self::AnyThread,
        Self::CalleeAsks,
        Self::CalleeReleases,
        Self::CalleeLeaves,
        Self::CalleeKeeps,
        Self::Owned,
        Self::Clear,
        Self::Opaque,
        Self::OneMacro,
        Self::AsWritten,
        Self::Begins,
        Self::MacrosInside,
        Self::Copied,
        Self::Spelt,
        Self::Commands,
        Self::NamedTypes,
        Self::VariableArrays,
        Self::Hoisted,
        Self::Survives,
        Self::Outlives,
        Self::Attributes,
        Self::Cleanup,
        Self::Directives,
        Self::Defined,
        Self::Errors,
        Self::Legible,
        Self::Wrappers,
        Self::Cancels,
        Self::Understood,
        Self::Whole,
        Self::Veiled,
        Self::Between,
        Self::Holders,
        Self::Arguments,
        Self::Values,
        Self::Holds,
    ];
}

//! Why a section stays as it is, and how that is said to people.

use std::fmt;

/// Why a section stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The function may return with the lock held, or the section leaves its block while it is.
    Leaves,
    /// It is taken again while it may be held.
    TakenAgain,
    /// Some of it runs with and without the lock.
    Mixed,
    /// A jump leads into it.
    EnteredElsewhere,
    /// Another lock is taken inside and kept, or one that was taken before is released inside.
    Interleaved,
    /// It waits for a condition in a way that a closure cannot.
    Waits,
    /// It waits for a condition whose name may mean another one before the section.
    NamesCondition,
    /// It gives its lock up in several ways, one of them a wait that is in no loop.
    WaitsOnce,
    /// It waits for a condition, and the program cancels threads.
    Cancels,
    /// Its file has too many different bytes that are no UTF-8.
    Illegible,
    /// The compiler finds an error in the function, or outside of all of them.
    HasErrors,
    /// The mutex itself cannot be a delegate.
    StaysMutex(String),
    /// The lock's result is used, or the call is no statement of its own.
    InsideExpression,
    /// The lock is named by an expression that may have an effect, or that is not understood.
    NamesLock,
    /// The statement that takes it is not in a block.
    NoBlock,
    /// What follows a release in its block goes back into the section.
    TailReturns,
    /// A variable in the lock's name may change inside.
    LockChanges(String),
    /// It calls something that means the calling frame, thread or process.
    BoundToCaller(String),
    /// It asks for the thread that it runs in, or names what each thread has its own of.
    MeansThread(String),
    /// It calls a function that asks for what each thread has of its own, or calls one that does.
    CalleeMeansThread {
        /// What the section calls.
        callee: String,
        /// What is asked for.
        asked: String,
    },
    /// It calls a function that releases its lock, or waits with it.
    CalleeReleases(String),
    /// It takes a mutex that knows the thread which holds it, or calls a function that does.
    Owned {
        /// What the section calls.
        callee: Option<String>,
        /// Where such a mutex is initialised.
        place: String,
    },
    /// It calls a function that takes another lock and keeps it, or releases one that was taken before.
    CalleeKeeps(String),
    /// It calls a function that may never come back, but go on further up, or end its thread.
    CalleeLeaves {
        /// What the section calls.
        callee: String,
        /// By what it does so.
        by: String,
    },
    /// A macro inside takes or releases another lock, and stays one.
    KeepsMacro,
    /// Assembly, a computed goto, or jumps inside a statement expression.
    Opaque,
    /// The lock and its release are in one expansion of a macro.
    OneMacro,
    /// The macro of this name, which takes or releases the lock or waits, does more than that.
    MacroDoesMore(String),
    /// The function of this name, which is registered as one that takes or releases the lock, does more than that.
    WrapperDoesMore(String),
    /// The text at a place in the file is not what the compiler sees there.
    NotAsWritten,
    /// It is in an argument of a macro, which the closure's commas would divide.
    MacroArgument,
    /// The function is in a macro, or begins in one that has more than what stands before its `{`.
    FunctionInMacro,
    /// A macro's body names a local variable that cannot be copied.
    MacroNames(String),
    /// A macro makes text or another name of a variable's name, and the variable cannot be copied.
    MacroSpells(String),
    /// Another command that compiles the file makes another section of it.
    OtherCommand,
    /// It calls this function, in which a thread may be cancelled, and the program cancels threads.
    MayBeCancelled(String),
    /// The same text means this variable and another one.
    MeansTwo(String),
    /// A variable's type has no name at the top of the file.
    UnnamedType(String),
    /// A type, a constant, or a function or a variable of the program that the function declares around it is named in it, or the other
    /// way round.
    InnerName(String),
    /// An array of variable size comes from around it.
    VariableArray(String),
    /// A variable that is declared inside is used outside, and cannot be declared before.
    DeclaredInside(String),
    /// The address of a variable that is declared inside is kept in another one.
    Outlives(String),
    /// A variable has an attribute, and would have to be declared elsewhere.
    Attributes(String),
    /// A variable's attribute calls a function at the end of a scope that the section ends in.
    Cleanup(String),
    /// The text has `#if`s that begin or end in it, or a `#define` that it may need is in the function before it.
    Preprocessor,
    /// Another configuration has a `return` in it.
    ReturnsElsewhere,
    /// Another configuration has a call of POSIX's for a mutex or a condition in it.
    LocksElsewhere,
    /// There are too many combinations of locks that may be held.
    Exploded,
    /// The user wants it so.
    Excepted,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaves => f.write_str("leaves its block, or the function, with the lock held"),
            Self::Illegible => f.write_str("its file is no UTF-8, and has many different bytes that are none (convert it by iconv)"),
            Self::TakenAgain => f.write_str("takes a lock that may be held already"),
            Self::Mixed => f.write_str("some of it is reached with and without the lock"),
            Self::EnteredElsewhere => f.write_str("a jump leads into it"),
            Self::Interleaved => {
                f.write_str("another lock is taken inside and released outside, or the other way round")
            }
            Self::Waits => f.write_str(
                "waits for a condition for a time, with another lock held, or for one that it names anew",
            ),
            Self::NamesCondition => f.write_str(
                "waits for a condition that is not the same before the section, where it is named first: its name reads memory (put its \
                 address in a local variable before the section)",
            ),
            Self::WaitsOnce => f.write_str(
                "gives its lock up in several ways, one of them a wait that is in no loop: it would return at once (ask in a loop for what \
                 is waited for)",
            ),
            Self::Cancels => f.write_str(
                "waits for a condition, and the program cancels threads by pthread_cancel, which a delegate's wait does not hear of",
            ),
            Self::HasErrors => f.write_str(
                "the compiler finds an error in its function, in a header or outside of all functions (give it the text and the arguments \
                 that the build has)",
            ),
            Self::StaysMutex(reason) => write!(f, "the mutex stays one: {reason}"),
            Self::InsideExpression => f.write_str("a lock call is part of an expression"),
            Self::NamesLock => f.write_str(
                "the lock's name has in it a call that may do more than compute, or something else that may not be the same at the \
                 release (put its address in a local variable before the section: `pthread_mutex_t *m = …`)",
            ),
            Self::NoBlock => f.write_str("the lock statement is not a statement of a block"),
            Self::TailReturns => {
                f.write_str(
                    "what follows the unlock in its block goes back into the section (end it by a `return` or `goto` of its own, before \
                     the next `case` or label)",
                )
            }
            Self::LockChanges(name) => {
                write!(f, "`{name}`, which the lock's name contains, may change inside")
            }
            Self::BoundToCaller(name) => {
                write!(f, "calls {name}, which means the caller's frame, thread or process")
            }
            Self::MeansThread(name) => {
                write!(
                    f,
                    "`{name}` is another in each thread, and a delegate may run it in any (--any-thread allows that)"
                )
            }
            Self::CalleeMeansThread { callee, asked } => {
                write!(
                    f,
                    "calls {callee}, which asks for `{asked}`: that is another in each thread, and a delegate may run it in any \
                     (--any-thread allows that)"
                )
            }
            Self::CalleeReleases(name) => {
                write!(f, "calls {name}, which gives the lock up that it does not take itself")
            }
            Self::Owned { callee, place } => {
                let who = callee.as_ref().map_or_else(String::new, |callee| format!("calls {callee}, which "));
                write!(
                    f,
                    "{who}takes a mutex that may be recursive or checked ({place}): it belongs to a thread, and a delegate may run \
                     the section in another (--any-thread allows that)"
                )
            }
            Self::CalleeKeeps(name) => {
                write!(
                    f,
                    "calls {name}, which takes another lock and keeps it, or releases one that it has not taken: a delegate may run it \
                     in another thread"
                )
            }
            Self::CalleeLeaves { callee, by } => {
                write!(f, "calls {callee}, which may leave the section by {by}: in a closure that ends what runs it")
            }
            Self::KeepsMacro => {
                f.write_str("a macro in it takes or releases another lock, and may return from the function")
            }
            Self::Opaque => {
                f.write_str("has assembly, a computed goto, or a jump inside a statement expression")
            }
            Self::MacroArgument => f.write_str("is in an argument of a macro"),
            Self::OneMacro => f.write_str("is inside one macro"),
            Self::MacroDoesMore(name) => write!(
                f,
                "the macro {name} takes or releases the lock and does more than that (write what it does more outside of it)"
            ),
            Self::WrapperDoesMore(name) => write!(
                f,
                "{name}, which --macros names, takes or releases the lock and does more than that (do what it does more outside of it)"
            ),
            Self::NotAsWritten => f.write_str(
                "its text is not what the compiler sees: an #include in its function, or a macro that begins or ends in the midst of \
                 it (write that out)",
            ),
            Self::FunctionInMacro => f.write_str("its function begins in a macro that has the `{`, or another declaration, too"),
            Self::MacroSpells(name) => write!(
                f,
                "a macro makes text, or another name, of `{name}`, which cannot be copied because something has its address (give the \
                 macro a copy)"
            ),
            Self::OtherCommand => f.write_str(
                "another command of the compilation database, with other macros, makes something else of it (leave one of the commands, or \
                 write it alike for both)",
            ),
            Self::MayBeCancelled(name) => write!(
                f,
                "calls {name}, in which a thread may be cancelled, and the program calls pthread_cancel: a delegate may run it in another \
                 thread than its own"
            ),
            Self::MacroNames(name) => write!(f, "a macro's body names `{name}`, which cannot be copied"),
            Self::MeansTwo(name) => write!(
                f,
                "the macro's argument `{name}` means two variables there (give one of them another name)"
            ),
            Self::UnnamedType(name) => write!(f, "the type of `{name}` has no name outside of the function"),
            Self::InnerName(name) => {
                write!(
                    f,
                    "`{name}`, which is no local variable, is declared on the other side of the section's bounds"
                )
            }
            Self::VariableArray(name) => write!(f, "`{name}` is an array of variable size"),
            Self::DeclaredInside(name) => write!(f, "declares `{name}`, which is used after it"),
            Self::Outlives(name) => {
                write!(
                    f,
                    "keeps the address of `{name}`, which it declares and which would be gone after it (declare it before the lock)"
                )
            }
            Self::Attributes(name) => {
                write!(
                    f,
                    "declares `{name}` with an attribute, which would be lost (declare it before the lock)"
                )
            }
            Self::Cleanup(name) => {
                write!(
                    f,
                    "declares `{name}`, whose cleanup would run before the lock is released (declare it before the lock)"
                )
            }
            Self::Preprocessor => {
                f.write_str("has a #if that is not whole in it, or follows a #define in its function")
            }
            Self::ReturnsElsewhere => {
                f.write_str("has a `return` in an #if that this configuration does not compile")
            }
            Self::LocksElsewhere => {
                f.write_str("has a lock call in an #if that this configuration does not compile")
            }
            Self::Exploded => f.write_str("too many combinations of locks may be held"),
            Self::Excepted => f.write_str("it, or another one of its lock in this function, is excepted"),
        }
    }
}

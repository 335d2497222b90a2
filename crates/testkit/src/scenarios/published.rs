//! Plays for pointers to what threads share for ever.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lockwork_platform::published::{Published, Told};
use lockwork_platform::{AtomicCell, DataCell, PoolNode};

use super::{Scenario, Subject};
use crate::model::{ModelPlatform, Play};

/// What is published. Its content is plain data: a checker of orderings sees here whether it was initialised before.
struct Item<P: ModelPlatform> {
    content: P::Data<usize>,
    /// The one that was published before.
    before: P::Ptr<Item<P>>,
}

impl<P: ModelPlatform + 'static> PoolNode<P> for Item<P> {
    fn new() -> Self {
        Self { content: P::Data::new(0), before: P::Ptr::new(std::ptr::null_mut()) }
    }
}

/// What every item contains.
const CONTENT: usize = 7;

fn item<P: ModelPlatform + 'static>() -> NonNull<Item<P>> {
    let item = P::alloc_node::<Item<P>>();
    // SAFETY: ours, and alive.
    let content = unsafe { &item.as_ref().content };
    // SAFETY: nobody else knows it.
    unsafe { content.set(CONTENT) };
    item
}

fn check<P: ModelPlatform>(item: &Item<P>) {
    // SAFETY: nobody writes what is published; the checker reports it if it was not initialised before.
    assert_eq!(unsafe { item.content.get() }, CONTENT);
}

/// Several threads publish the first one: all see that, and those that come late keep their own.
fn first<P: ModelPlatform + 'static>(threads: usize) -> Play {
    let published = Arc::new(Published::<P, Item<P>>::new());
    (0..threads).fold(Play::new(|| {}), |play, _| {
        let published = Arc::clone(&published);
        play.with(move || {
            let mine = item::<P>();
            // SAFETY: initialised, and alive to the end of the execution if it is published.
            match unsafe { published.first(mine) } {
                Ok(first) => check(first),
                Err(first) => {
                    check(first);
                    // SAFETY: nobody has seen it.
                    unsafe { P::free_node(mine) };
                }
            }
            check(published.get().expect("somebody was first"));
        })
    })
}

/// Threads publish one after the other, and another goes through all that it finds.
fn list<P: ModelPlatform + 'static>(publishers: usize) -> Play {
    let published = Arc::new(Published::<P, Item<P>>::new());
    let publish = |play: Play, _| {
        let published = Arc::clone(&published);
        play.with(move || {
            let mine = item::<P>();
            // SAFETY: ours until it is published.
            let link = |before| unsafe { mine.as_ref() }.before.store(before, Relaxed);
            // SAFETY: initialised, and alive to the end of the execution.
            check(unsafe { published.push(mine, link) });
        })
    };
    let play = (0..publishers).fold(Play::new(|| {}), publish);
    // Last, or loom sees no reason to let it run late.
    play.with(move || {
        let mut next = published.pointer().cast_const();
        // SAFETY: published, and alive to the end of the execution.
        while let Some(item) = unsafe { next.as_ref() } {
            check(item);
            next = item.before.load(Relaxed).cast_const();
        }
    })
}

/// A thread publishes and tells of it; others find it by what was told, and one of them at most takes it.
fn told<P: ModelPlatform + 'static>(takers: usize) -> Play {
    let (published, told) = (Arc::new(Published::<P, Item<P>>::new()), Arc::new(Told::<P, Item<P>>::new()));
    let teller = {
        let (published, told) = (Arc::clone(&published), Arc::clone(&told));
        move || {
            let mine = item::<P>();
            // SAFETY: initialised, and alive to the end of the execution.
            let Ok(known) = (unsafe { published.first(mine) }) else { unreachable!("nobody else publishes") };
            told.tell(std::ptr::from_ref(known).cast_mut());
        }
    };
    let take = |play: Play, _| {
        let told = Arc::clone(&told);
        play.with(move || {
            // SAFETY: published, and alive to the end of the execution.
            if let Some(item) = unsafe { told.pointer().as_ref() } {
                check(item);
            }
            if let Some(item) = told.take() {
                // SAFETY: as above: published, and alive to the end of the execution.
                check(unsafe { item.as_ref() });
            }
        })
    };
    (0..takers).fold(Play::new(|| {}).with(teller), take)
}

/// Publication.
#[must_use]
pub fn publication<P: ModelPlatform + 'static>() -> Subject {
    let scenarios = vec![
        Scenario::new("first-of-two", 2, || first::<P>(2)).keeping(1),
        Scenario::new("first-of-three", 3, || first::<P>(3)).keeping(1),
        Scenario::new("one-publishes", 2, || list::<P>(1)).keeping(1),
        Scenario::new("two-publish", 3, || list::<P>(2)).keeping(2),
        Scenario::new("told-to-one", 2, || told::<P>(1)).keeping(1),
        Scenario::new("told-to-two", 3, || told::<P>(2)).keeping(1),
    ];
    Subject { name: "published".to_owned(), scenarios }
}

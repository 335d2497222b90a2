//! Waiting with a node that the thread finds again if it gives up: the queues' side of `platform::bookmarks`.

use core::any::TypeId;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use lockwork_platform::bookmarks::{Bookmark, End, Queue};
use lockwork_platform::{Platform, PoolNode};

use super::word::{self, WAITING};
use super::{Behind, GRANTED, Owner, Wait, WaitPolicy};

/// A wait in a queue of nodes `N`, by a thread that finds its node again if it gives up.
#[derive(Debug)]
pub struct Returning<P: Platform, N> {
    end: End,
    types: PhantomData<fn() -> (P, N)>,
}

impl<P: Platform, N: PoolNode<P>> Returning<P, N> {
    /// Waits in the queue at `address`: with `fresh`, a node that is the caller's, by `line_up`; or, if the thread gave up there
    /// before and its node is still in the queue, by `come_back`, which is told the node. They return what was granted.
    pub(crate) fn run<R>(
        address: usize,
        wait: &Wait,
        fresh: NonNull<N>,
        line_up: impl FnOnce(&Wait) -> Option<R>,
        come_back: impl FnOnce(NonNull<N>, &mut Self, &Wait) -> Option<R>,
    ) -> Option<R> {
        let queue = Queue { address, kind: kind_of::<N>() };
        let Some(marked) = P::mark(queue) else { return line_up(&Wait { bookmark: None, ..*wait }) };
        let wait = Wait { bookmark: Some(marked.number), ..*wait };
        let mut returning = Self { end: End::Granted, types: PhantomData };
        let left = marked.node.and_then(|node| NonNull::new(ptr::with_exposed_provenance_mut(node)));
        let granted = if let Some(left) = left {
            // SAFETY: never published.
            unsafe { P::free_node(fresh) };
            come_back(left, &mut returning, &wait)
        } else {
            P::bookmark(marked.number, |mark| mark.note(queue, fresh.as_ptr().expose_provenance()));
            line_up(&wait)
        };
        let end =
            if granted.is_none() && returning.end == End::Granted { End::GaveUp } else { returning.end };
        P::bookmark(marked.number, |mark: &Bookmark<P>| mark.end(end));
        granted
    }

    /// Says that the thread, if it gives up in `wait`, does so at `node` instead of its own.
    pub(crate) fn leaves(node: NonNull<N>, wait: &Wait) {
        if let Some(number) = wait.bookmark {
            P::bookmark(number, |mark| mark.leaves(node.as_ptr().expose_provenance()));
        }
    }

    /// Takes up the word in which the thread gave up. Returns how to go on waiting for it; `None`: it has been granted.
    pub(crate) fn take_up(&mut self, word: &P::Futex, wait: &Wait) -> Option<Wait> {
        match word::take_up(word, wait, WAITING) {
            Ok(()) => Some(*wait),
            Err(said) => {
                let wait = self.was_met(wait);
                (said != GRANTED).then_some(wait)
            }
        }
    }

    /// Takes up the word and goes on waiting for it by `W`, as the thread of the node that `owner` is of. The thread ahead may be
    /// another one by now, and is nobody known. `None`: the deadline passed.
    pub(crate) fn go_on<W: WaitPolicy<P>>(
        &mut self,
        word: &P::Futex,
        owner: &Owner<P>,
        wait: &Wait,
    ) -> Option<()> {
        owner.note::<W>();
        match self.take_up(word, wait) {
            Some(wait) => W::wait_at(word, &Behind::new(0, owner), &wait).ok(),
            None => Some(()),
        }
    }

    /// Says that another thread moved the word on when this one had come back, and may be about to visit the bookmark. Returns
    /// how to go on waiting: by no bookmark.
    pub(crate) fn was_met(&mut self, wait: &Wait) -> Wait {
        self.end = End::GrantedOnReturn;
        Wait { bookmark: None, ..*wait }
    }
}

/// A number of the type.
fn kind_of<N: 'static>() -> u64 {
    /// Keeps what it is given last.
    struct Last(u64);
    impl Hasher for Last {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
        }
        fn write_u64(&mut self, number: u64) {
            self.0 = number;
        }
    }
    let mut last = Last(0);
    TypeId::of::<N>().hash(&mut last);
    last.finish()
}

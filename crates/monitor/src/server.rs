//! The daemon: it hands out boards, and takes them back when processes end.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::alive::{Alive, Page};
use crate::numbers::{Linux, Numbers};
use crate::peer::Peer;
use crate::probe::{Answers, Probe};
use crate::rights;
use crate::signals::Signals;
use crate::socket::Socket;
use crate::watch::{Board, Watch};
use crate::{Means, Obstacle, Telling};

/// Processes that can be watched at the same time.
pub const BOARDS: u32 = 1024;
/// Of those, how many may be of one user other than root. As many are kept for root, and for all others against root.
pub const PER_USER: usize = 256;

/// A process that is watched.
#[derive(Debug)]
struct Client {
    peer: Peer,
    number: u32,
    board: Board,
}

/// What the daemon waits for.
#[derive(Debug)]
struct Happened {
    told_to_end: bool,
    /// Somebody connected.
    asked: bool,
    /// Clients that have ended.
    ended: Vec<u32>,
}

/// The daemon.
#[derive(Debug)]
pub struct Server {
    signals: Signals,
    socket: Socket,
    watch: Arc<Watch>,
    probe: Probe,
    /// While the probe is answered.
    answers: Option<Answers>,
    telling: Telling,
    alive: Arc<Alive>,
    numbers: Numbers,
    /// By their ids.
    clients: HashMap<u32, Client>,
}

impl Server {
    /// Gets ready, and begins to listen at `path`, whose directory is made if it is not there. Clients learn which threads run
    /// by `means`, or, if the kernel does not allow that, by [`Means::Switches`]. The calling thread loses its
    /// capabilities but for two, and is not ended by `SIGTERM` and `SIGINT` any more, but by [`Server::run`].
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn start(path: &Path, wish: Means) -> Result<Self, Obstacle> {
        let refused = |what| move |error| Obstacle::Refused(what, error, String::new());
        let page = Page::new().map_err(refused("a memory file"))?;
        let probe = Probe::new().map_err(refused("a memory file"))?;
        let watch = Arc::new(Watch::start()?);
        let (answers, telling) = Telling::begin(&watch, &probe, wish);
        page.say_answers(answers.is_some());
        let socket = Socket::listen(path)?;
        let boards = rights::raise_descriptors(BOARDS);
        // What is done up to here other threads inherit.
        rights::drop().map_err(refused("to give up rights"))?;
        let signals = Signals::block().map_err(refused("signals as input"))?;
        let alive = Arc::new(Alive::new(page).map_err(refused("a robust futex"))?);
        let teller = Linux::new(Arc::clone(&watch), Arc::clone(&alive));
        let numbers = Numbers::new(boards, teller).map_err(refused("another thread"))?;
        Ok(Self { signals, socket, watch, probe, answers, telling, alive, numbers, clients: HashMap::new() })
    }

    /// How clients learn which threads run.
    #[must_use]
    pub fn telling(&self) -> &Telling {
        &self.telling
    }

    /// Serves until `SIGTERM` or `SIGINT` comes.
    ///
    /// # Errors
    ///
    /// What the system said: it cannot go on.
    pub fn run(mut self) -> io::Result<()> {
        let end = self.serve_until_told();
        self.end_answers();
        end
    }

    /// Takes the breakpoints away, which the kernel does badly for a thread that is being killed. A client that is about to
    /// ask may do so before.
    fn end_answers(&mut self) {
        self.alive.page().say_answers(false);
        thread::sleep(Duration::from_millis(5));
        self.answers = None;
    }

    fn serve_until_told(&mut self) -> io::Result<()> {
        loop {
            let Happened { told_to_end, asked, ended } = self.wait()?;
            if told_to_end {
                return Ok(());
            }
            for pid in ended {
                self.forget(pid);
            }
            if asked {
                self.serve_all();
            }
        }
    }

    /// Waits until something happens.
    fn wait(&self) -> io::Result<Happened> {
        let clients: Vec<&Client> = self.clients.values().collect();
        let mut events =
            vec![PollFd::new(&self.signals, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        events.extend(clients.iter().map(|client| PollFd::new(&client.peer.process, PollFlags::IN)));
        match poll(&mut events, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let happened = |event: &PollFd| !event.revents().is_empty();
        let ended = clients.iter().zip(&events[2..]).filter(|(_, event)| happened(event));
        Ok(Happened {
            told_to_end: happened(&events[0]),
            asked: happened(&events[1]),
            ended: ended.map(|(client, _)| client.peer.pid).collect(),
        })
    }

    fn forget(&mut self, pid: u32) {
        if let Some(client) = self.clients.remove(&pid) {
            self.numbers.give_back(client.number, client.peer.user);
        }
    }

    fn serve_all(&mut self) {
        /// Connections taken in a row: clients that connect all the time must not keep the ends of others from being noticed.
        const MOST: usize = 64;
        /// Between two attempts to take a connection that the system has nothing left for.
        const SHORTAGE: Duration = Duration::from_millis(100);
        for _ in 0..MOST {
            let stream = match self.socket.accept() {
                Ok(stream) => stream,
                Err(error) => {
                    let passes = [io::ErrorKind::WouldBlock, io::ErrorKind::ConnectionAborted];
                    if !passes.contains(&error.kind()) {
                        // The system has no file or no memory for it. It stays in line, which would wake us at once for as long.
                        thread::sleep(SHORTAGE);
                    }
                    return;
                }
            };
            // A client that is turned away finds its connection closed, and does without.
            let _ = self.serve(&stream);
        }
    }

    fn serve(&mut self, stream: &UnixStream) -> io::Result<()> {
        let peer = Peer::of(stream)?;
        if let Some(client) = self.clients.get(&peer.pid) {
            // A process that has executed another program has lost its number, and others may have kept its board.
            let process = client.peer.process.as_fd();
            if !client.peer.has_ended()? && self.watch.number_of(process) == Some(client.number) {
                // It has been sent its board, so it wants more, or the answer came too late for it.
                if self.telling.means == Means::Switches {
                    self.numbers.watch();
                }
                return self.send(stream, &client.board);
            }
            self.forget(peer.pid);
        }
        let users = self.clients.values().map(|client| client.peer.user);
        if !has_room(users.chain(self.numbers.users_leaving()), peer.user) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let number = self.numbers.take().ok_or(io::ErrorKind::QuotaExceeded)?;
        let introduced = self.introduce(stream, &peer, number);
        match introduced {
            Ok(board) => {
                self.clients.insert(peer.pid, Client { peer, number, board });
                Ok(())
            }
            Err(error) => {
                self.watch.take_from(peer.process.as_fd());
                self.numbers.give_back(number, peer.user);
                Err(error)
            }
        }
    }

    /// Makes a board for the client, sends it, and has it written from a little later on.
    fn introduce(&self, stream: &UnixStream, peer: &Peer, number: u32) -> io::Result<Board> {
        let board = Watch::make_board()?;
        let shown = board.try_clone()?;
        self.watch.assign(peer.process.as_fd(), number)?;
        // From here on it loses the number if it executes another program. It may have done so since it connected.
        if !peer.has_same_rights()? {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.send(stream, &board)?;
        self.numbers.show(number, shown);
        Ok(board)
    }

    /// Sends what the client maps, without waiting for it.
    fn send(&self, stream: &UnixStream, board: &Board) -> io::Result<()> {
        let descriptors = [self.alive.page().readable(), board.readable(), self.probe.readable()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(stream, &[IoSlice::new(&[0])], &mut control, flags)?;
        Ok(())
    }
}

/// Whether `user` may have another board, when those there are belong to `users`.
fn has_room(users: impl Iterator<Item = u32>, user: u32) -> bool {
    const ROOT: u32 = 0;
    /// Of root, and of all others together.
    const SIDE: usize = BOARDS as usize - PER_USER;
    let (mut own, mut side) = (0, 0);
    for each in users {
        own += usize::from(each == user);
        side += usize::from((each == ROOT) == (user == ROOT));
    }
    side < SIDE && (user == ROOT || own < PER_USER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users with so many boards each.
    fn users<const N: usize>(counts: [(u32, usize); N]) -> impl Iterator<Item = u32> {
        counts.into_iter().flat_map(|(user, count)| std::iter::repeat_n(user, count))
    }

    #[test]
    fn a_user_leaves_room_for_others() {
        assert!(has_room(users([(1000, PER_USER - 1)]), 1000));
        assert!(!has_room(users([(1000, PER_USER)]), 1000));
        assert!(has_room(users([(1000, PER_USER)]), 1001));
    }

    #[test]
    fn root_and_all_others_leave_room_for_each_other() {
        let most = [(1, PER_USER), (2, PER_USER), (3, PER_USER)];
        assert!(!has_room(users(most), 4));
        assert!(has_room(users(most), 0));
        assert!(has_room(users([(0, 3 * PER_USER - 1)]), 0));
        assert!(!has_room(users([(0, 3 * PER_USER)]), 0));
        assert!(has_room(users([(0, 3 * PER_USER)]), 1));
    }
}

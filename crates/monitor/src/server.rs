//! The daemon: it hands out boards, and takes them back when processes end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::Obstacle;
use crate::alive::Alive;
use crate::peer::Peer;
use crate::watch::{Board, Watch};

/// Processes that can be watched at the same time.
pub const BOARDS: u32 = 1024;
/// Of those, how many may be of one user other than root.
pub const PER_USER: usize = 256;

/// A process that is watched.
#[derive(Debug)]
struct Client {
    peer: Peer,
    number: u32,
    board: Board,
}

/// What is to be told to the kernel, which takes milliseconds for it: a thread of its own does, while clients are served.
#[derive(Debug)]
enum Order {
    /// Show the threads of a process on the board of this number.
    Show { process: OwnedFd, number: u32, board: Board },
    /// Its process has ended.
    Free(u32),
}

/// The daemon.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    orders: Sender<Order>,
    alive: Alive,
    clients: HashMap<u32, Client>,
    /// Numbers of boards that nobody has.
    free: Vec<u32>,
}

impl Server {
    /// Begins to watch, and to listen at `path`, whose directory is made if it is not there.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn start(path: &Path) -> Result<Self, Obstacle> {
        let watch = Watch::start()?;
        let alive =
            Alive::new().map_err(|error| Obstacle::Refused("a robust futex", error, String::new()))?;
        let listener = listen(path)?;
        let (orders, todo) = mpsc::channel();
        thread::spawn(move || carry_out(&watch, todo));
        Ok(Self { listener, orders, alive, clients: HashMap::new(), free: (0..BOARDS).rev().collect() })
    }

    /// Serves until it cannot any more.
    ///
    /// # Errors
    ///
    /// What the system said.
    pub fn run(mut self) -> io::Result<Infallible> {
        loop {
            let (asked, ended) = self.wait()?;
            for pid in ended {
                self.forget(pid);
            }
            if asked {
                self.serve_all();
            }
        }
    }

    /// Waits for clients, and for the ends of processes; whether there are any of the former, and which there are of the latter.
    fn wait(&self) -> io::Result<(bool, Vec<u32>)> {
        let clients: Vec<&Client> = self.clients.values().collect();
        let mut events = vec![PollFd::new(&self.listener, PollFlags::IN)];
        events.extend(clients.iter().map(|client| PollFd::new(&client.peer.process, PollFlags::IN)));
        match poll(&mut events, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let happened = |event: &PollFd| !event.revents().is_empty();
        let ended = clients.iter().zip(&events[1..]).filter(|(_, event)| happened(event));
        Ok((happened(&events[0]), ended.map(|(client, _)| client.peer.pid).collect()))
    }

    fn forget(&mut self, pid: u32) {
        if let Some(client) = self.clients.remove(&pid) {
            // The program has no use for it any more: with the process its task is gone.
            self.order(Order::Free(client.number));
            self.free.push(client.number);
        }
    }

    fn serve_all(&mut self) {
        /// In a row: those who connect all the time must not keep the others' ends from being noticed.
        const MOST: usize = 64;
        for _ in 0..MOST {
            let Ok((stream, _)) = self.listener.accept() else { return };
            // Who is turned away finds its connection closed, and does without.
            let _ = self.serve(&stream);
        }
    }

    fn serve(&mut self, stream: &UnixStream) -> io::Result<()> {
        let peer = Peer::of(stream)?;
        if let Some(client) = self.clients.get(&peer.pid) {
            if !has_ended(&client.peer)? {
                return self.send(stream, &client.board);
            }
            self.forget(peer.pid);
        }
        let count = self.clients.values().filter(|client| client.peer.user == peer.user).count();
        if peer.user != 0 && count >= PER_USER {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let number = self.free.pop().ok_or(io::ErrorKind::QuotaExceeded)?;
        match self.introduce(stream, &peer, number) {
            Ok(board) => {
                self.clients.insert(peer.pid, Client { peer, number, board });
                Ok(())
            }
            Err(error) => {
                self.free.push(number);
                Err(error)
            }
        }
    }

    /// Makes a board for the client, sends it, and has it written from a little later on.
    fn introduce(&self, stream: &UnixStream, peer: &Peer, number: u32) -> io::Result<Board> {
        let board = Watch::make_board()?;
        let (process, shown) = (peer.process.try_clone()?, board.try_clone()?);
        self.send(stream, &board)?;
        self.order(Order::Show { process, number, board: shown });
        Ok(board)
    }

    fn order(&self, order: Order) {
        // The other end lives as long as this one.
        let _ = self.orders.send(order);
    }

    /// Sends what the client maps, without waiting for it.
    fn send(&self, stream: &UnixStream, board: &Board) -> io::Result<()> {
        let descriptors = [self.alive.readable(), board.readable()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(stream, &[IoSlice::new(&[0])], &mut control, flags)?;
        Ok(())
    }
}

/// Tells the kernel. Where it refuses, because a process has ended or there is no memory, the board stays empty, which tells nobody
/// anything.
fn carry_out(watch: &Watch, todo: Receiver<Order>) {
    for order in todo {
        let _ = match order {
            Order::Show { process, number, board } => watch.show(process.as_fd(), number, &board),
            Order::Free(number) => watch.free(number),
        };
    }
}

fn has_ended(peer: &Peer) -> io::Result<bool> {
    let mut events = [PollFd::new(&peer.process, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut events, Some(&now))? > 0)
}

/// A socket that everybody may connect to. One that a monitor left behind that ended is replaced.
fn listen(path: &Path) -> Result<UnixListener, Obstacle> {
    let name = || path.display().to_string();
    let refused = |error| Obstacle::Socket(name(), error);
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory).map_err(refused)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(Obstacle::AlreadyRunning(name()));
    }
    match fs::symlink_metadata(path) {
        Ok(there) if is_socket(&there) => fs::remove_file(path).map_err(refused)?,
        _ => {}
    }
    // Not by its path later: somebody else's file may be there by then.
    let before = rustix::process::umask(Mode::from_raw_mode(0o111));
    let listener = UnixListener::bind(path).map_err(refused);
    rustix::process::umask(before);
    let listener = listener?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

fn is_socket(file: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.file_type().is_socket()
}

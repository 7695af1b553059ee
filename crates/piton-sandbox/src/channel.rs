//! What runner and first process tell each other, a line of JSON each, over a pair of sockets.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A command that is to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The program as an absolute path in the sandbox, or a name to be found in `PATH`; then its arguments.
    pub argv: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Whether it gets a terminal, where there are namespaces.
    #[serde(default)]
    pub terminal: bool,
    /// What it reads from its standard input, where it has no terminal.
    #[serde(default, with = "as_text")]
    pub input: Option<Vec<u8>>,
}

/// Bytes in JSON, as base64.
mod as_text {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de};

    #[expect(clippy::ref_option, reason = "serde wants it so")]
    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| BASE64_STANDARD.encode(bytes)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| BASE64_STANDARD.decode(text).map_err(de::Error::custom)).transpose()
    }
}

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How it ended.
    pub how: Ended,
    /// Whether nothing that it started lives. Only the first process of a PID namespace can know: all orphans in it are its children.
    pub is_alone: bool,
}

/// How a command ended, or that it could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
    /// It could not be started: whether its program was not found, and why.
    NotStarted {
        /// There is no such program.
        not_found: bool,
        /// Why.
        error: String,
    },
}

/// What the first process says while it sets up.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Setup {
    /// All layers hold.
    Ready,
    /// One does not.
    Failed(String),
}

/// Longest message: an environment and a command line that the kernel takes, and what a command reads, up to 10 MB.
const MOST_BYTES: usize = 16 << 20;

/// Sends a message.
pub(crate) fn send(mut to: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Sends a short message, and a descriptor with it.
pub(crate) fn send_with(
    to: &UnixStream,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let Some(descriptor) = descriptor else { return send(to, message) };
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    hand_over(to, &line, descriptor)
}

/// Waits for the next message; `None`: the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(from: &UnixStream) -> io::Result<Option<T>> {
    Ok(receive_with(from)?.map(|(message, _)| message))
}

/// The same, with the descriptor that came with it.
pub(crate) fn receive_with<T: DeserializeOwned>(from: &UnixStream) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut line = Vec::new();
    let mut descriptor = None;
    let mut piece = [0; 4_096];
    // Nobody says two things before the other has answered, so what comes ends with a line.
    while line.last() != Some(&b'\n') {
        let read = match take(from, &mut piece) {
            Ok((0, _)) => return Ok(None),
            Ok((read, handed)) => {
                descriptor = descriptor.or(handed);
                read
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        line.extend_from_slice(&piece[..read]);
        if line.len() > MOST_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
        }
    }
    Ok(Some((serde_json::from_slice(&line)?, descriptor)))
}

/// Hands a descriptor over to whoever calls [`receive_descriptor`] at the other end of a socket.
pub fn send_descriptor(to: impl AsFd, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    /// A descriptor cannot go alone.
    const SOMETHING: &[u8] = b"d";
    hand_over(to, SOMETHING, descriptor)
}

/// Takes a descriptor that [`send_descriptor`] hands over; `None`: the other side is gone.
pub fn receive_descriptor(from: impl AsFd) -> io::Result<Option<OwnedFd>> {
    match take(from, &mut [0])? {
        (0, _) => Ok(None),
        (_, Some(descriptor)) => Ok(Some(descriptor)),
        (_, None) => Err(io::Error::new(io::ErrorKind::InvalidData, "no descriptor came with the message")),
    }
}

fn hand_over(to: impl AsFd, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let has_room = control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if has_room && sent == bytes.len() { Ok(()) } else { Err(io::Error::other("the descriptor was not handed over")) }
}

/// How many bytes came, and the descriptor with them.
fn take(from: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut all) => all.next(),
        _ => None,
    });
    Ok((received.bytes, descriptor))
}

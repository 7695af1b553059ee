//! Messages of a process, one a line. An answer that cannot be read fails the request that it belongs to; any other line that is no
//! message is passed over. Nothing that a server does or does not read holds up what we read from it: rmcp's own transport answers
//! every bad line, and two sides that only write wait for each other for ever.

use crate::damaged;
use crate::process::Input;
use crate::text;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

/// Messages that wait for a server to read them.
const MOST_WAITING: usize = 1_024;
/// Bad lines that are logged.
const MOST_LOGGED: usize = 20;
/// Bytes that are kept of the end of a line that is too long: which request it answers may stand there.
const TAIL: usize = 4_096;

/// Both directions.
pub(crate) struct Lines<R> {
    output: BufReader<R>,
    line: Vec<u8>,
    most_bytes: usize,
    /// The line is too long: its beginning is in `line`, and of the rest only the end is kept.
    tail: Option<Vec<u8>>,
    bad: usize,
    input: Option<mpsc::Sender<Vec<u8>>>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(output: R, input: Input, most_bytes: usize) -> Self {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        tokio::spawn(write(input, receiver));
        let output = BufReader::with_capacity(64 << 10, output);
        Self { output, line: Vec::new(), most_bytes, tail: None, bad: 0, input: Some(sender) }
    }

    /// Completes the line that is being read; nothing at the end. May be dropped while it waits.
    async fn read_line(&mut self) -> Option<()> {
        loop {
            let bytes = self.output.fill_buf().await.ok().filter(|bytes| !bytes.is_empty())?;
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            let bytes = &bytes[..end.unwrap_or(bytes.len())];
            match &mut self.tail {
                Some(tail) => {
                    tail.extend_from_slice(bytes);
                    tail.drain(..tail.len().saturating_sub(TAIL));
                }
                None => self.line.extend_from_slice(bytes),
            }
            self.output.consume(taken);
            if self.line.len() > self.most_bytes {
                self.tail = Some(self.line[self.line.len().saturating_sub(TAIL)..].to_vec());
                self.line.truncate(TAIL);
                self.line.shrink_to_fit();
            }
            if end.is_some() {
                return Some(());
            }
        }
    }

    /// What a line says; nothing where it is no message and no answer.
    fn read(&mut self, line: &[u8], tail: Option<&[u8]>) -> Option<ServerJsonRpcMessage> {
        let why = match tail {
            Some(_) => format!("it has more than {}", text::size(self.most_bytes)),
            None => match damaged::read(line) {
                Ok(message) => return Some(message),
                Err(why) => why,
            },
        };
        self.bad(&why);
        damaged::failed(line, tail.unwrap_or(line), &why)
    }

    fn bad(&mut self, why: &str) {
        self.bad += 1;
        if self.bad <= MOST_LOGGED {
            tracing::debug!("a line of an MCP server was passed over: {why}");
        }
    }
}

/// Writes what is sent, until nothing more comes or the server has closed its input.
async fn write(mut input: Input, mut waiting: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = waiting.recv().await {
        if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> Transport<RoleClient> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sent = serde_json::to_vec(&item).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            let input = self.input.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            input
                .try_send(line)
                .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the server does not read its input"))
        });
        std::future::ready(sent)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            self.read_line().await?;
            let (line, tail) = (std::mem::take(&mut self.line), self.tail.take());
            if line.trim_ascii().is_empty() {
                continue;
            }
            if let Some(message) = self.read(&line, tail.as_deref()) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.input = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_message_is_passed_over() {
        let large = "x".repeat(2_000);
        let said = format!("no JSON\n\n[1]\n{large}\n{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{}}}}\r\n{large}");
        let (input, _held) = tokio::io::duplex(1);
        let mut lines = Lines::new(std::io::Cursor::new(said.into_bytes()), Box::new(input), 1_000);
        assert!(matches!(lines.receive().await, Some(ServerJsonRpcMessage::Response(_))));
        assert!(lines.receive().await.is_none());
        assert_eq!(lines.bad, 3, "what ends without a line end is not one");
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_fails_its_request() {
        let large = "x".repeat(20_000);
        let said = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{{\"a\":\"{large}\"}}}}\n{{\"result\":{{\"id\":1,\"a\":\"{large}\"}},\"jsonrpc\":\"2.0\",\"id\":8}}\n"
        );
        let (input, _held) = tokio::io::duplex(1);
        let mut lines = Lines::new(std::io::Cursor::new(said.into_bytes()), Box::new(input), 10_000);
        for id in [7, 8] {
            let Some(ServerJsonRpcMessage::Error(failed)) = lines.receive().await else { panic!("{id}") };
            assert_eq!(failed.id, Some(rmcp::model::RequestId::Number(id)));
            assert!(failed.error.message.contains("it has more than 10 kB"), "{}", failed.error.message);
        }
    }
}

//! SOCKS5 (RFC 1928): `CONNECT` without authentication, to a name or an address.

use super::client::{Refusals, in_time};
use super::relay::relay;
use super::{Egress, EgressError, Host, HostError, Place};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The first byte of every message.
pub(super) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What a request is answered with.
#[derive(Debug, Clone, Copy)]
enum Reply {
    Connected = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

/// One connection, from its first byte on.
pub(super) async fn serve(mut client: TcpStream, egress: &Egress, refusals: &Refusals) -> io::Result<()> {
    if !in_time(greet(&mut client)).await? {
        return client.shutdown().await;
    }
    let place = match in_time(request(&mut client)).await? {
        Ok(Ok(place)) => place,
        Ok(Err(error)) => {
            refusals.note(&EgressError::NoHost(error));
            return answer(&mut client, Reply::NotAllowed).await;
        }
        Err(reply) => return answer(&mut client, reply).await,
    };
    match egress.connect(&place).await {
        Ok(mut host) => {
            answer(&mut client, Reply::Connected).await?;
            relay(&mut client, &mut host).await
        }
        Err(error) => {
            refusals.note(&error);
            let reply = if error.is_refusal() { Reply::NotAllowed } else { Reply::HostUnreachable };
            answer(&mut client, reply).await
        }
    }
}

/// Agrees on no authentication; `false` where the client insists on some.
async fn greet(client: &mut TcpStream) -> io::Result<bool> {
    let [_version, count] = read(client).await?;
    let mut methods = vec![0; usize::from(count)];
    client.read_exact(&mut methods).await?;
    let is_agreed = methods.contains(&NO_AUTHENTICATION);
    client.write_all(&[VERSION, if is_agreed { NO_AUTHENTICATION } else { NO_METHOD }]).await?;
    Ok(is_agreed)
}

/// Where the client wants to go, or what is wrong with the place, or with the request.
async fn request(client: &mut TcpStream) -> io::Result<Result<Result<Place, HostError>, Reply>> {
    let [version, command, _reserved, kind] = read(client).await?;
    if (version, command) != (VERSION, CONNECT) {
        return Ok(Err(Reply::CommandNotSupported));
    }
    let host = match kind {
        IPV4 => Ok(Host::Address(Ipv4Addr::from(read::<4>(client).await?).into())),
        IPV6 => Ok(Host::Address(Ipv6Addr::from(read::<16>(client).await?).into())),
        NAME => {
            let [length] = read(client).await?;
            let mut name = vec![0; usize::from(length)];
            client.read_exact(&mut name).await?;
            // What is no UTF-8 becomes a character that no host has.
            Host::parse(&String::from_utf8_lossy(&name))
        }
        _ => return Ok(Err(Reply::AddressTypeNotSupported)),
    };
    let port = u16::from_be_bytes(read(client).await?);
    Ok(Ok(host.map(|host| Place { host, port })))
}

async fn read<const BYTES: usize>(client: &mut TcpStream) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// The address that we connect from is none of the client's business, so it is always the unspecified one.
async fn answer(client: &mut TcpStream, reply: Reply) -> io::Result<()> {
    client.write_all(&[VERSION, reply as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]).await?;
    match reply {
        Reply::Connected => Ok(()),
        _ => client.shutdown().await,
    }
}

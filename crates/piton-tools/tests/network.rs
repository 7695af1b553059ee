//! What a command in a sandbox reaches of the network, through the runner and real commands.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests start programs by themselves")]

mod support;

use piton_core::call::Status;
use piton_http::egress::{Egress, HostRule, Resolver};
use piton_sandbox::Plan;
use piton_tools::tool::ToolContext;
use piton_tools::toolset::ToolSet;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use support::{Place, runner_program};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

async fn run(place: &mut Place, number: &mut usize, command: &str) -> (Status, String) {
    *number += 1;
    place.cx.call = format!("c{number}_0").as_str().into();
    let outcome = place.bash(command).await;
    (outcome.status, outcome.text)
}

/// Looks `open.test` up at this machine, which a real one would not allow.
struct Here;

#[async_trait::async_trait]
impl Resolver for Here {
    async fn addresses(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        assert_eq!(name, "open.test", "what is not open is not looked up");
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }

    fn may_reach(&self, address: IpAddr) -> bool {
        address == Ipv4Addr::LOCALHOST
    }
}

#[tokio::test]
async fn an_open_host_is_reached_by_call_after_call_and_no_other() {
    let mut place = Place::confined();
    let host = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = host.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = host.accept().await {
            let _ = client.read(&mut [0; 4_096]).await;
            let _ = client.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello").await;
        }
    });
    let rules = vec![HostRule::parse(&format!("open.test:{port}")).unwrap()];
    place.open(Arc::new(Egress::over(rules, Arc::new(Here))));
    let mut number = 0;
    let fetch = format!("curl -sS -m 9 http://open.test:{port}/");
    for _ in 0..3 {
        let (status, text) = run(&mut place, &mut number, &fetch).await;
        assert_eq!((status, text.as_str()), (Status::Ok, "hello"));
    }
    // Its own server is reached, that of the machine is not: the proxy is the one way out, and judges.
    let past = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    assert_eq!(run(&mut place, &mut number, &past).await.0, Status::Failed);
    let (_, text) = run(&mut place, &mut number, "curl -sS -m 9 http://closed.test/").await;
    assert!(text.contains("[network: refused to connect to closed.test:80;"), "{text}");
    let mut calls = tokio::task::JoinSet::new();
    for call in 0..4 {
        let cx = ToolContext { call: format!("p{call}_0").as_str().into(), ..place.cx.clone() };
        let fetch = serde_json::json!({"command": fetch});
        calls.spawn(async move { ToolSet::builtin().get("bash").unwrap().run(fetch, &cx).await });
    }
    for outcome in calls.join_all().await {
        assert_eq!(outcome.text, "hello", "side by side, each with a network of its own");
    }
}

#[tokio::test]
async fn where_nobody_serves_it_any_more_connections_are_refused_at_once() {
    let mut place = Place::confined();
    place.open(Arc::new(Egress::over(Vec::new(), Arc::new(Here))));
    // A runner whose Piton has just died: nobody is at the other end of its stdin.
    let plan = place.calls_dir.with_file_name("plan");
    std::fs::create_dir_all(&place.calls_dir).unwrap();
    std::fs::write(&plan, serde_json::to_vec(&Plan::of(place.reach())).unwrap()).unwrap();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let script = "sleep 0.3; exec 3<>/dev/tcp/127.0.0.1/21128";
    let mut runner = Command::new(runner_program());
    runner.arg(&place.calls_dir).arg(plan).env_clear().envs(place.cx.env.iter());
    let mut runner =
        runner.stdin(std::os::fd::OwnedFd::from(theirs)).stdout(std::process::Stdio::null()).spawn().unwrap();
    (&ours).write_all(&place.spec(script)).unwrap();
    drop(ours);
    runner.wait().unwrap();
    let cx = place.restarted();
    let outcome = ToolSet::builtin().get("bash").unwrap().settle(serde_json::json!({"command": script}), &cx).await;
    assert_eq!(outcome.status, Status::Failed, "{}", outcome.text);
    assert!(outcome.text.contains("Connection refused"), "{}", outcome.text);
}

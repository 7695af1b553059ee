//! The tools of MCP servers: how they are listed, found and called, and what the model is told when servers change.

mod support;

use crate::support::Place;
use piton_core::call::{Access, CallInput, Outcome, Status, ToolSpec};
use piton_core::ids::CallId;
use piton_core::message::{Part as MessagePart, ToolCall};
use piton_testkit::servers::{Part, PlayedServers, Start, played_tool};
use piton_tools::servers::{Pin, ServerResource, ServerState, Servers};
use piton_tools::toolset::ToolSet;
use serde_json::{Map, Value, json};
use std::sync::Arc;

struct Bench {
    servers: Arc<PlayedServers>,
    tools: ToolSet,
    place: Place,
}

impl Bench {
    fn of(parts: impl IntoIterator<Item = Part>) -> Self {
        let servers = PlayedServers::new(parts);
        let tools = ToolSet::builtin().with_servers(Arc::clone(&servers) as Arc<dyn Servers>);
        Self { servers, tools, place: Place::new() }
    }

    fn call(name: &str, input: Value) -> ToolCall {
        let input = CallInput::Json(input);
        ToolCall { id: CallId::from("c1_0"), provider_id: None, name: name.into(), spelling: None, input, opaque: None }
    }

    /// What a call as the model writes it comes to: it is named, understood, planned and run.
    async fn run(&self, name: &str, input: Value) -> (ToolCall, Outcome) {
        let mut parts = [MessagePart::ToolCall(Self::call(name, input))];
        self.tools.name_calls(&mut parts);
        let [MessagePart::ToolCall(call)] = parts else { unreachable!("it was one") };
        let call = self.tools.understand(&call);
        let tool = self.tools.get(&call.name).expect("there is such a tool");
        let input = call.input.value().expect("an object").clone();
        let outcome = match tool.plan(&input, &self.place.look()) {
            Ok(_) => tool.run(input, &self.place.cx).await,
            Err(refused) => refused,
        };
        (call, outcome)
    }

    fn spec(&self, name: &str) -> ToolSpec {
        self.tools.specs().iter().find(|spec| spec.name == name).expect("it is declared").clone()
    }
}

fn fifty(name: &str) -> Part {
    let tools: Vec<String> = (0..50).map(|n| format!("tool_{n:02}")).collect();
    let mut part = Part::ready(name, tools.iter().map(String::as_str)).known();
    for tool in &mut part.tools {
        tool.description = "Does one of the fifty things that this server does, at some length.".to_owned();
    }
    part.instructions = "Use this server for everything that has to do with it. ".repeat(20);
    part
}

#[test]
fn four_servers_of_fifty_tools_cost_three_kilobytes() {
    let size = |tools: &ToolSet| serde_json::to_string(&tools.specs()).unwrap().len();
    let bench = Bench::of(["alpha", "beta", "gamma", "delta"].map(fifty));
    let more = size(&bench.tools) - size(&ToolSet::builtin());
    assert!(more <= 3_000, "{more} bytes");
    let text = bench.spec("tool_search").description;
    assert!(text.contains("- alpha (50 tools): Use this server") && text.contains("- gamma (50 tools)"), "{text}");
    let many: Vec<String> = (0..100).map(|n| format!("server-number-{n:03}")).collect();
    let bench = Bench::of(many.iter().map(|name| fifty(name)));
    let text = bench.spec("tool_search").description;
    assert!(text.len() <= 2_000 && text.contains(" more: tool_search finds them"), "{} bytes", text.len());
}

#[test]
fn small_servers_and_those_whose_entry_says_so_are_there_from_the_beginning() {
    let mut large = fifty("large");
    large.always_load = true;
    let bench = Bench::of([Part::ready("small", ["one"]).known(), large, fifty("other"), Part::ready("new", ["x"])]);
    let names: Vec<String> = bench.tools.specs().iter().map(|spec| spec.name.clone()).collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    assert!(has("mcp__small__one") && has("mcp__large__tool_49") && !has("mcp__other__tool_00") && !has("mcp__new__x"));
}

#[tokio::test]
async fn what_is_declared_stays_the_same_while_servers_change() {
    let bench = Bench::of([Part::ready("db", ["query"]), Part::hanging("slow")]);
    let before = bench.tools.specs();
    let mut told = bench.tools.told_of_servers();
    bench.servers.start();
    let news = told.news(&bench.servers.servers()).expect("news").text;
    assert!(news.ends_with("\n- db: 1 tool, mcp__db__query"), "{news}");
    assert_eq!(told.news(&bench.servers.servers()), None, "nothing is told twice");
    bench.servers.change("db", |part, _| {
        part.tools = vec![played_tool("db", "query", "Now it is described."), played_tool("db", "drop", "")];
    });
    let news = told.news(&bench.servers.servers()).expect("news").text;
    assert!(news.ends_with("- db: new: mcp__db__drop; changed, so search for them again: mcp__db__query"), "{news}");
    bench.servers.change("slow", |_, state| {
        *state = ServerState::Failed { why: "exited with code 1".into(), retry_in_s: Some(5) };
    });
    let news = told.news(&bench.servers.servers()).expect("news").text;
    assert!(news.ends_with("- slow cannot be used: exited with code 1"), "{news}");
    bench.servers.change("slow", |_, state| *state = ServerState::NeedsLogin);
    assert_eq!(told.news(&bench.servers.servers()), None, "that it cannot be used is known");
    bench.servers.change("db", |part, _| part.tools.clear());
    let news = told.news(&bench.servers.servers()).expect("news").text;
    assert!(news.ends_with("- db: gone: mcp__db__drop, mcp__db__query"), "{news}");
    assert!(Arc::ptr_eq(&before, &bench.tools.specs()));
}

#[tokio::test]
async fn a_call_is_one_of_the_tool_itself_whichever_way_the_model_makes_it() {
    let bench = Bench::of([Part::ready("db", ["query"])]);
    let own = json!({"text": "select 1"});
    for (name, input) in [
        ("mcp__db__query", own.clone()),
        ("MCP__DB__Query", own.clone()),
        ("call_tool", json!({"name": "mcp__db__query", "arguments": own})),
        ("Call_Tool", json!({"tool": "mcp__db__query", "args": own.to_string()})),
    ] {
        if name == "MCP__DB__Query" {
            bench.servers.start();
        }
        let (call, outcome) = bench.run(name, input.clone()).await;
        assert_eq!((call.name.as_str(), call.spelling()), ("mcp__db__query", name));
        assert_eq!(call.input, CallInput::Json(own.clone()));
        assert_eq!(outcome.text, format!("db did query with {own}."));
        let again = bench.tools.understand(&call);
        assert_eq!(again.input, call.input, "it is taken apart once");
    }
    let (call, outcome) = bench.run("call_tool", json!({"name": "mcp__db__query"})).await;
    assert_eq!((call.input, outcome.status), (CallInput::Json(json!({})), Status::Ok));
    let (_, outcome) = bench.run("call_tool", json!({"name": "mcp__nowhere__x", "arguments": {}})).await;
    assert!(outcome.text.contains("no tool mcp__nowhere__x of a server. The servers are db"), "{}", outcome.text);
    let (_, outcome) = bench.run("call_tool", json!({"arguments": {}})).await;
    assert!(outcome.text.contains("name the tool"), "{}", outcome.text);
    let (_, outcome) = bench.run("mcp__db__quary", json!({})).await;
    assert!(outcome.text.contains("the server db has no tool mcp__db__quary"), "{}", outcome.text);
    assert_eq!(bench.servers.log().iter().filter(|line| line.starts_with("call")).count(), 5);
}

#[tokio::test]
async fn what_it_accesses_is_its_name_and_a_changed_description_keeps_it_from_running() {
    let bench = Bench::of([Part::ready("db", ["query"]).known()]);
    let tool = bench.tools.get("mcp__db__query").unwrap();
    let plan = tool.plan(&json!({"text": "x\u{202e}"}), &bench.place.look()).unwrap();
    assert_eq!(plan.planned.accesses, [Access::Use("mcp__db__query".into())]);
    assert!(!plan.planned.title.contains('\u{202e}'), "{}", plan.planned.title);
    bench.servers.change("db", |part, _| part.tools[0].pin = Pin::Changed { diff: String::new() });
    // Found before the change, and after it.
    let late = tool.run(json!({}), &bench.place.cx).await;
    let (_, early) = bench.run("mcp__db__query", json!({})).await;
    for outcome in [late, early] {
        assert_eq!(outcome.status, Status::Failed);
        assert!(outcome.text.contains("`piton mcp accept db`"), "{}", outcome.text);
    }
    assert!(!bench.servers.log().iter().any(|line| line.starts_with("call")));
}

#[tokio::test(start_paused = true)]
async fn a_search_finds_by_words_and_names_and_waits_for_servers_that_start() {
    let mut db = Part::ready("db", ["run_query", "list_tables"]);
    db.tools[0].description = "Runs SQL.".into();
    let resource = ServerResource {
        uri: "db://tables/users".into(),
        name: "users".into(),
        description: "The table of users".into(),
        is_template: false,
    };
    db.resources.push((resource, "id, name".into()));
    let bench = Bench::of([db, Part::hanging("slow"), Part::failing("gone", "no such program")]);
    let search = async |query: &str| bench.run("tool_search", json!({"query": query})).await.1;
    let text = search("sql query").await.text;
    assert!(text.starts_with("mcp__db__run_query (server db)\nRuns SQL.\nInput: {\""), "{text}");
    assert!(text.contains("[the server gone cannot be used: no such program]"), "{text}");
    assert!(text.contains("[the server slow has not answered yet]"), "{text}");
    let text = search("select:mcp__db__list_tables,run_query, nope").await.text;
    assert!(
        text.contains("mcp__db__list_tables (server db)") && text.contains("mcp__db__run_query (server db)"),
        "{text}"
    );
    assert!(text.contains("There is no tool nope."), "{text}");
    let text = search("users").await.text;
    assert!(text.contains("- server db, uri db://tables/users: users The table of users"), "{text}");
    let text = search("zebra").await.text;
    assert!(text.contains("Nothing was found") && text.contains("- db: run_query, list_tables"), "{text}");
    let refused = search(" \t").await;
    assert!(refused.text.contains("give words"), "{}", refused.text);
}

#[tokio::test]
async fn one_tool_is_shown_in_four_kilobytes_however_long_its_schema_is() {
    let mut part = Part::ready("big", ["tool"]);
    let field = |n: usize| {
        let deep = json!({"type": "object", "properties": {"x": {"type": "string", "description": "y".repeat(300)}}});
        (format!("field_{n}"), json!({"type": "array", "items": deep, "description": "z".repeat(200)}))
    };
    for fields in [3, 40, 20_000] {
        let properties: serde_json::Map<String, Value> = (0..fields).map(field).collect();
        part.tools[0].schema = json!({"type": "object", "properties": properties, "required": ["field_0"]});
        part.tools[0].description = "It does much. ".repeat(1_000);
        let bench = Bench::of([part.clone()]);
        let (_, outcome) = bench.run("tool_search", json!({"query": "select:mcp__big__tool"})).await;
        assert!(outcome.text.len() <= 4_096, "{} bytes with {fields} fields", outcome.text.len());
        assert!(outcome.text.contains("field_0"), "{}", outcome.text);
        assert_eq!(outcome.text.contains("(shortened)"), fields > 3, "{fields}: {}", outcome.text);
    }
}

#[tokio::test]
async fn what_is_found_by_words_fits_four_kilobytes_however_much_it_is() {
    let mut server = fifty("db");
    let fields: Map<String, Value> =
        (0..200).map(|n| (format!("field_{n}"), json!({"type": "string", "description": "d".repeat(80)}))).collect();
    for tool in &mut server.tools {
        tool.schema = json!({"type": "object", "properties": fields});
        tool.description = "Asks the database. ".repeat(100);
    }
    let bench = Bench::of([server]);
    bench.servers.start();
    for resource in 0..50 {
        bench.servers.change("db", |part, _| {
            let uri = format!("db://{resource}/{}", "long/".repeat(40));
            let (name, description) = ("database".to_owned(), "Rows. ".repeat(40));
            part.resources.push((ServerResource { uri, name, description, is_template: false }, String::new()));
        });
    }
    let (_, outcome) = bench.run("tool_search", json!({"query": "ask the database"})).await;
    assert!(outcome.text.len() <= 4_096, "{} bytes", outcome.text.len());
    for part in ["mcp__db__tool_00 (server db)", "Input (shortened): ", "- and ", "Resources, for"] {
        assert!(outcome.text.contains(part), "{part}: {}", outcome.text);
    }
}

#[tokio::test]
async fn a_resource_is_read_and_a_missing_server_named() {
    let mut part = Part::ready("db", []);
    let uri = "db://a".to_owned();
    let resource =
        ServerResource { uri: uri.clone(), name: "a".into(), description: String::new(), is_template: false };
    part.resources.push((resource, "what it holds".into()));
    let bench = Bench::of([part, Part { start: Start::Fails("no".into()), ..Part::ready("web", []) }]);
    let read = async |server: &str| bench.run("read_resource", json!({"server": server, "uri": uri})).await.1;
    assert_eq!(read("db").await.text, "what it holds");
    assert!(read("none").await.text.contains("there is no server none. The servers are db, web."));
    assert!(read("web").await.text.contains("the server web cannot be used: no"));
    let plan = bench.tools.get("read_resource").unwrap();
    let plan = plan.plan(&json!({"server": "db", "uri": uri}), &bench.place.look()).unwrap();
    assert_eq!(plan.planned.accesses, [Access::Use("mcp__db__read_resource".into())]);
}

#[tokio::test]
async fn without_servers_nothing_is_declared() {
    let tools = ToolSet::builtin().with_servers(PlayedServers::new([]));
    assert_eq!(tools.specs(), ToolSet::builtin().specs());
    assert!(tools.get("mcp__db__query").is_none() && tools.servers().is_none());
}

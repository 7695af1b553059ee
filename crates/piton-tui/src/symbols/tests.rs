//! What is found in a workspace, and how it is chosen from.

use super::*;

fn found(path: &str, text: &str) -> Vec<String> {
    let found = scan::definitions(&path.into(), text);
    found.iter().map(|symbol| format!("{} {} {}-{}", symbol.keyword, symbol.name, symbol.first, symbol.last)).collect()
}

#[test]
fn definitions_are_told_by_the_words_of_their_language() {
    let rust = "use x;\n\npub(crate) async fn run(\n    a: u8,\n) -> u8\nwhere\n    A: B,\n{\n    let x = 1;\n\n    call(x)\n}\n\
                pub const fn of() {}\nimpl X {\n    pub(super) fn inner(&self) {\n        1\n    }\n}\nconst MOST: usize = 1;\n\
                macro_rules! made {\n    () => {};\n}\nextern \"C\" fn c() {}\n// fn not_this\nlet fnord = 1;\n";
    assert_eq!(
        found("a.rs", rust),
        ["fn run 3-12", "fn of 13-13", "fn inner 15-17", "const MOST 19-19", "macro_rules! made 20-22", "fn c 23-23"]
    );
    let python = "class A:\n    async def b(self):\n        pass\n\n    x = 1\n\ndef c(): pass\nd = 1\n";
    assert_eq!(found("a.py", python), ["class A 1-5", "def b 2-3", "def c 7-7"]);
    let script = "export default class A {\n  b() {}\n}\nexport const c = () => {\n  const d = 1\n}\ntype E = 1;\n";
    assert_eq!(found("a.ts", script), ["class A 1-3", "const c 4-6", "type E 7-7"]);
    assert_eq!(
        found("a.go", "func (s *S) Run() error {\n\treturn nil\n}\ntype S struct{}\n"),
        ["func Run 1-3", "type S 4-4"]
    );
    let c = "#define MOST 1\nstatic int add(int a,\n               int b)\n{\n  return f(a);\n}\nint g(void);\nstruct s {\n  int a;\n};\n";
    assert_eq!(found("a.c", c), ["#define MOST 1-1", "function add 2-6", "struct s 8-10"]);
    assert_eq!(found("a.sh", "build() {\n  make\n}\nbuild (now)\n"), ["function build 1-3"]);
    assert_eq!(found("a.rb", "class A\n  def b\n    1\n  end\nend\n"), ["class A 1-5", "def b 2-4"]);
    assert!(found("a.txt", "fn a() {}").is_empty());
}

#[test]
fn those_of_a_workspace_are_found_by_a_part_of_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(".gitignore", "made/\n");
    write("made/x.rs", "fn parse_made() {}\n");
    write("src/lib.rs", "fn reparse() {}\nfn Parse() {}\nfn parse_all() {}\nfn parse() {}\nfn other() {}\n");
    write("src/big.rs", &"fn parse_big() {}\n".repeat(20_000));
    let mut symbols = Symbols::start(folder.path());
    let names = loop {
        let found = symbols.search("parse", 4).into_iter().map(|symbol| symbol.name.clone()).collect::<Vec<_>>();
        if symbols.is_settled() {
            break found;
        }
        std::thread::yield_now();
    };
    assert_eq!(names, ["parse", "Parse", "parse_all", "reparse"]);
    assert!(symbols.search("nothing", 4).is_empty() && symbols.search("", 4).is_empty());
}

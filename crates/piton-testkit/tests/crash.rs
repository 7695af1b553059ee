//! Nothing lost, nothing twice: every scenario, crashed at every point.

use piton_testkit::crash::{self, Planted};

#[test]
fn debug_points() {
    for scenario in crash::scenarios(1) {
        let began = std::time::Instant::now();
        let points = crash::points(&scenario, 1);
        println!("{}: {points} points, {:?}", scenario.name, began.elapsed());
        let began = std::time::Instant::now();
        let sweep = crash::sweep(&scenario, 1, Planted::Nothing);
        println!("  {:?} {}", began.elapsed(), sweep.rows.iter().map(|r| r.runs).sum::<usize>());
        for row in &sweep.rows { println!("   {} {} {} lives, {} violated", row.crash, row.runs, row.lives, row.violated); }
        for v in sweep.violations.iter().take(8) { println!("   {v}"); }
    }
}

//! What is found, and in which order.

use super::*;

fn names(needle: &str, names: &[&str]) -> Vec<String> {
    let hits = best(needle, names.iter().copied(), 10);
    hits.into_iter()
        .map(|hit| {
            let name = names[hit.index];
            let chars = name.char_indices();
            chars
                .map(|(at, char)| if hit.positions.contains(&at) { format!("({char})") } else { char.into() })
                .collect()
        })
        .collect()
}

#[test]
fn letters_are_found_in_their_order_best_first() {
    for (needle, of, found) in [
        ("", &["b", "a"][..], &["b", "a"][..]),
        ("mdl", &["modal", "model", "dim"], &["(m)o(d)a(l)", "(m)o(d)e(l)"]),
        ("ex", &["exportable", "export", "index"], &["(e)(x)port", "(e)(x)portable", "ind(e)(x)"]),
        ("E", &["export", "Export"], &["(E)xport"]),
        ("cafe", &["café", "cave"], &["(c)(a)(f)(é)"]),
        ("x", &["日本x", "👩\u{200d}💻x"], &["👩\u{200d}💻(x)", "日本(x)"]),
        ("son op", &["opus", "claude-opus", "sonnet-op"], &["(s)(o)(n)net-(o)(p)"]),
        ("zz", &["abc"], &[]),
    ] {
        assert_eq!(names(needle, of), found, "{needle:?}");
    }
}

#[test]
fn no_more_than_wanted_are_handed_back() {
    let names: Vec<String> = (0..100).map(|number| format!("name {number}")).collect();
    let hits = best("name", names.iter().map(String::as_str), 3);
    assert_eq!(hits.iter().map(|hit| hit.index).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn random_needles_and_names_do_no_harm() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut text = |most: usize| -> String { (0..random.usize(..most)).map(|_| random.char(..)).collect() };
    for _ in 0..500 {
        let name = text(30);
        for hit in best(&text(6), [name.as_str(), "a\n b"].into_iter(), 2) {
            assert!(hit.positions.is_sorted());
            assert!(hit.index == 1 || hit.positions.iter().all(|at| name.is_char_boundary(*at)));
        }
    }
    assert_eq!(best("a", [format!("{}a", "b".repeat(1_000_000)).as_str()].into_iter(), 1).len(), 1);
}

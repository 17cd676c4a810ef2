//! The table of guards; `tests/ops/test_bad_arguments.py` has a call for each of them.

use super::*;

#[test]
fn most_operators_have_no_guard() {
    assert!(Guard::find("aten::add", Vec::new()).is_none() && Guard::find("other::segment_reduce", Vec::new()).is_none());
    assert!(Guard::find("aten::segment_reduce", Vec::new()).is_some());
    // The strides of a result only matter if the caller provides it.
    let out = Argument { name: "out".into(), is_written: true };
    assert!(Guard::find("aten::avg_pool3d", Vec::new()).is_none() && Guard::find("aten::avg_pool3d", vec![out]).is_some());
}

#[test]
fn the_table_s_rules_name_what_they_use() {
    // Each name of a count is in a pattern before it, and a line asks for one change at most.
    fn names(rules: &[Rule], known: &mut Vec<&'static str>, changes: &mut usize) {
        for rule in rules {
            match *rule {
                Sizes(_, pattern) => known.extend(pattern.split(' ').map(|term| term.trim_end_matches(['?', '!', '.']))),
                Along(..) => known.extend(["before", "along", "after"]),
                Numel(_, count) | Indices(_, count) | Sums(_, count) | Prefixes(_, _, count) => {
                    let names = count.trim_end_matches("+1").split('*').filter(|name| *name != "1");
                    assert!(names.clone().all(|name| known.contains(&name)), "{rule:?}");
                }
                Contiguous(_) | Replaced(..) => *changes += 1,
                When(_, _, rules) => names(rules, known, &mut 0),
                _ => {}
            }
        }
    }
    for (operators, rules) in GUARDS {
        let mut changes = 0;
        names(rules, &mut Vec::new(), &mut changes);
        assert!(changes <= 1, "{operators:?}");
    }
}

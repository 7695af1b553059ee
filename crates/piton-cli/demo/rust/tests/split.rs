use split_the_bill::{split, with_tip};

#[test]
fn an_even_bill_is_split_evenly() {
    assert_eq!(split(900, 3), [300, 300, 300]);
}

#[test]
fn the_shares_add_up_to_the_bill() {
    let shares = split(1000, 3);
    assert_eq!(shares.iter().sum::<u64>(), 1000, "shares: {shares:?}");
}

#[test]
fn nobody_pays_more_than_one_cent_more_than_anybody_else() {
    let shares = split(1001, 4);
    assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
}

#[test]
fn a_tip_is_rounded_up() {
    assert_eq!(with_tip(1001, 10), 1102);
}

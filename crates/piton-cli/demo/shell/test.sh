# One line per test; fails if a test does.
. ./split.sh

number=0
failed=0

# Whether $2 is $3.
check() {
    number=$((number + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1: $2 instead of $3"
        failed=1
    fi
}

sum() {
    total=0
    for value; do total=$((total + value)); done
    echo "$total"
}

# How much the first pays more than the last.
difference() {
    first=$1
    shift $(($# - 1))
    echo $((first - $1))
}

check "an even bill is split evenly" "$(echo $(split 900 3))" "300 300 300"
check "the shares add up to the bill" "$(sum $(split 1000 3))" 1000
check "shares differ by at most a cent" "$(($(difference $(split 1001 4)) <= 1))" 1
check "a tip is rounded up" "$(with_tip 1001 10)" 1102
exit "$failed"

# Splits a bill among friends, to the cent.

# What each of $2 people pays of $1 cents. Nobody pays more than one cent more than anybody else.
split() {
    share=$(($1 / $2))
    person=0
    while [ "$person" -lt "$2" ]; do
        echo "$share"
        person=$((person + 1))
    done
}

# The bill of $1 cents with a tip of $2 percent, rounded up to the next cent.
with_tip() {
    echo $(($1 + ($1 * $2 + 99) / 100))
}

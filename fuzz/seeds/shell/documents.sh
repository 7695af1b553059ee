cat <<E
$(rm x)
E
for i in {a,b}; do sed "s/a/b/w $i" x > y; done
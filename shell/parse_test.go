package shell

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// render formats a command like the tables below: the wrappers, each followed by ">", then the
// words. <...> is a computed word.
func render(c *Command) string {
	var b strings.Builder
	for _, v := range c.Via {
		b.WriteString(v + " > ")
	}
	b.WriteString(renderWord(c.program))
	for _, a := range c.Args {
		b.WriteString(" " + renderWord(a))
	}
	return b.String()
}

func renderWord(w Word) string {
	switch {
	case !w.Literal:
		return "<" + w.Text + ">"
	case w.Text == "" || strings.ContainsAny(w.Text, " \n\r<>'\""):
		return fmt.Sprintf("%q", w.Text)
	}
	return w.Text
}

func renderAll(s *Script) []string {
	var list []string
	for i := range s.Commands {
		list = append(list, render(&s.Commands[i]))
	}
	return list
}

// A parseCase is a line and the expected result. unknown has the beginnings of the reasons.
type parseCase struct {
	line     string
	commands []string
	unknown  []string
}

func do(commands ...string) []string     { return commands }
func because(reasons ...string) []string { return reasons }

func TestParse(t *testing.T) {
	t.Parallel()
	groups := map[string][]parseCase{
		"plain": {
			{"", nil, nil},
			{" \t\n ", nil, nil},
			{"rm -rf /", do("rm -rf /"), nil},
			{"rm\t-rf\t/", do("rm -rf /"), nil},
			{"rm -rf \\\n  /", do("rm -rf /"), nil},
			{"r\\\nm -rf /", do("rm -rf /"), nil},
			{"  rm x # rm y", do("rm x"), nil},
			{"# rm x", nil, nil},
			{"rm x;", do("rm x"), nil},
			{"rm x\nrm y\n\n", do("rm x", "rm y"), nil},
			{"échø ü 日本", do("échø ü 日本"), nil},
			{"[ -f x ]", do("[ -f x ]"), nil},
			{"a=b", nil, nil},
			{"a=b c=d rm x", do("rm x"), nil},
			{"echo a=b", do("echo a=b"), nil},
			{"ls *.go ~/x [ab]? file", do("ls *.go ~/x [ab]? file"), nil},
			{"Remove-Item -Recurse -Force x", do("Remove-Item -Recurse -Force x", "rm -rf x"), nil},
		},
		"quotes": {
			{`\rm -rf /`, do("rm -rf /"), nil},
			{`'r'm -rf /`, do("rm -rf /"), nil},
			{`"r"'m' -r"f" /`, do("rm -rf /"), nil},
			{`r""m -rf /`, do("rm -rf /"), nil},
			{`r\m x`, do("rm x"), nil},
			{`$'\x72\155' $'\u002d'rf $'a\tb'`, do(`rm -rf ` + "a\tb"), nil},
			{`$'rm\0junk' x`, do("rm x"), nil},
			{`$"rm" x`, do("rm x"), nil},
			{`echo "rm -rf /"`, do(`echo "rm -rf /"`), nil},
			{`echo 'a; rm -rf /'`, do(`echo "a; rm -rf /"`), nil},
			{`git commit -m "git push --force; rm -rf /"`, do(`git commit -m "git push --force; rm -rf /"`), nil},
			{`git commit -m 'use $(rm -rf /) here'`, do(`git commit -m "use $(rm -rf /) here"`), nil},
			{`echo "\$(rm x)" \$\(rm\ y\)`, do(`echo "$(rm x)" "$(rm y)"`), nil},
			{`echo "a\b\\c\"d"`, do(`echo "a\\b\\c\"d"`), nil},
			{`echo '' ""`, do(`echo "" ""`), nil},
			{`echo $'it\'s; rm x'`, do(`echo "it's; rm x"`), because("$'...' with a quote inside")},
			{"echo 'a\nrm x'", do(`echo "a\nrm x"`), nil},
		},
		"names": {
			{"/bin/rm x", do("/bin/rm x"), nil},
			{"./rm x", do("./rm x"), nil},
			{"../../bin/rm x", do("../../bin/rm x"), nil},
			{"~/bin/rm x", do("~/bin/rm x"), nil},
			{"=rm x", do("=rm x"), nil},
			{"$x -rf /", do("<$x> -rf /"), because("computed command name: $x")},
			{"x=rm; $x -rf /", do("<$x> -rf /", "rm -rf /"), because("computed command name: $x")},
			{"$(echo rm) -rf /", do("<$(echo rm)> -rf /", "echo rm", "rm -rf /"), because("computed command name: $(echo rm)")},
			{"x=a; echo ${x/}; rm y", do("echo <${x/}>", "rm y"), nil}, // there is nothing to replace
			{"`echo rm` x", do("<`echo rm`> x", "echo rm", "rm x"), because("computed command name: `echo rm`")},
			{"rm${IFS}-rf${IFS}/", do("<rm$IFS-rf$IFS/>", "rm -rf /"), because("computed command name")},
			{`"$VENV/bin/python" -m pip`, do("<$VENV/bin/python> -m pip", "python -m > pip"), nil},
			{"$HOME/bin/rm x", do("<$HOME/bin/rm> x", "~/bin/rm x"), because("computed command name: $HOME/bin/rm")},
			{`"/bin/$x" y`, do("</bin/$x> y"), because("computed command name: /bin/$x")},
			{"/bin/r? x", do("/bin/r? x"), because("computed command name: /bin/r?")},
			{"r* x", do("r* x"), because("computed command name: r*")},
			{"/bin/r[m] x", do("/bin/r[m] x"), because("computed command name: /bin/r[m]")},
			{"'/bin/r?' x", do("/bin/r? x"), nil},
			{"sudo /bin/r? x", do("sudo /bin/r? x", "sudo > /bin/r? x"), because("computed command name: /bin/r?")},
			{"{rm,-rf,/}", do("rm -rf /"), because("computed command name: {rm,-rf,/}")},
			{"!(rm -rf /)", do(`"!(rm -rf /)"`), because("computed command name")},
			{"r\u200bm x", do("r\u200bm x"), because("invisible character")},
			{"\ufeffrm x", do("\ufeffrm x"), because("invisible character")},
			{"rm\u00a0-rf /", do("rm\u00a0-rf /"), because("invisible character")},
			{`"" x`, do(`"" x`), nil},
			{"$'' x", do(`"" x`), nil},
		},
		"words": {
			{"mv x{,.bak}", do("mv x x.bak"), nil},
			{"cp {a,b}{1,2} c", do("cp a1 a2 b1 b2 c"), nil},
			{"cp {a,{b,c}d} e", do("cp a bd cd e"), nil},
			{"echo {} {a} a{b {a,b '{a,b}' \\{a,b}", do("echo {} {a} a{b {a,b {a,b} {a,b}"), nil},
			{"echo {1..5} x", do("echo <{1..5}> x"), nil},
			{"echo {$x,b}", do("echo <{$x,b}>"), nil},
			{"rm -{r,f} x", do("rm -r -f x"), nil},
			{"rm $x \"$y\" ${z} \"${z}\"/a '$q'", do("rm <$x> <$y> <$z> <$z/a> $q"), nil},
			{"echo $((1+2)) $[3] ${#x} $# $$", do("echo <$((1+2))> <$[3]> <${#x}> <$#> <$$>"), nil},
			{"echo $ a$", do("echo $ a$"), nil},
			{"diff <(sort a) <(rm b)", do("diff <<(sort a)> <<(rm b)>", "sort a", "rm b"), nil},
		},
		"structure": {
			{"a && b || c; d & e", do("a", "b", "c", "d", "e"), nil},
			{"a | b |& c", do("a", "b", "c"), nil},
			{"! a", do("a"), nil},
			{"(a; b) && { c; d; }", do("a", "b", "c", "d"), nil},
			{"((a); rm b)", do("a", "rm b"), nil},
			{"if a; then rm x; elif b; then c; else d; fi", do("a", "rm x", "b", "c", "d"), nil},
			{"while a; do rm x; done; until b; do c; done", do("a", "rm x", "b", "c"), nil},
			{"for i in $(a) b; do rm $i; done", do("a", "rm <$i>", "rm b"), nil},
			{"for ((i=$(a); i<$(b); i++)); do c; done", do("a", "b", "c"), nil},
			{"select i in a; do rm $i; done", do("rm <$i>", "rm a"), nil},
			{"case $(a) in $(b)) rm x;; *) c;; esac", do("a", "b", "rm x", "c"), nil},
			{"f() { rm x; }", do("rm x"), nil},
			{"function f { rm \"$@\"; }; f -rf /", do("rm <$@>", "f -rf /", "rm -rf /"), nil},
			{"a=$(rm x) b=`rm y` c \"$(rm z)\"", do("rm x", "rm y", "c <$(rm z)>", "rm z"), nil},
			{": $(git push -f)", do(": <$(git push -f)>", "git push -f"), nil},
			{"echo \"a $(b \"c $(rm x)\")\"", do(`echo <a $(b "c $(rm x)")>`, "b <c $(rm x)>", "rm x"), nil},
			{"echo `a \\`rm x\\``", do("echo <`a \\`rm x\\``>", "a <`rm x\\`>", "rm x"), nil},
			{
				"echo ${x:-$(rm a)} ${y/$(rm b)/$(rm c)} ${z:$(rm d)} ${a[$(rm e)]}",
				do("echo <${x:-$(rm a)}> <${y/$(rm b)/$(rm c)}> <${z:$(rm d)}> <${a[$(rm e)]}>", "rm a", "rm b", "rm c", "rm d", "rm e"), nil,
			},
			{"echo $((1 + $(rm x)))", do("echo <$((1 + $(rm x)))>", "rm x"), nil},
			{"(( a = $(rm x) ))", do("rm x"), nil},
			{"[[ $(rm x) == y && -f $(rm z) ]]", do("rm x", "rm z"), nil},
			{"a[$(rm x)]=1; b=($(rm y) [$(rm z)]=1)", do("rm x", "rm y", "rm z"), nil},
			{"a > $(rm x) 2> `rm y`", do("a", "rm x", "rm y"), []string{"computed file of a redirection: $(rm x)", "computed file of a redirection: `rm y`"}},
			{"cat <<< $(rm x)", do("cat", "rm x"), nil},
			{"export a=$(rm x) b", do("export <a=$(rm x)> b", "rm x"), nil},
			{"declare -x \"$z\"", do("declare -x <$z>"), nil},
			{"time -p rm x | b", do("time", "time > rm x", "time > b"), nil},
			{"coproc rm x", do("coproc", "coproc > rm x"), because("unparsable: coproc")},
			{"a >(rm x)", do("a <>(rm x)>", "rm x"), nil},
			{"eval 'time ! rm x'", do(`eval "time ! rm x"`, "eval > time ! rm x", "eval > time > ! rm x", "eval > time > ! > rm x"), because("unparsable")},
		},
		"here-documents": {
			{"cat <<'EOF'\nrm -rf /\nEOF", do("cat"), nil},
			{"cat <<\\EOF\n$(rm -rf /)\nEOF", do("cat"), nil},
			{"cat <<EOF\nrm -rf /\nEOF", do("cat"), nil},
			{"cat <<EOF\n$(rm -rf /)\nEOF", do("cat", "rm -rf /"), nil},
			{"cat <<EOF\n`rm x` \\$(rm y) ${z:-$(rm z)}\nEOF\nrm last", do("cat", "rm x", "rm z", "rm last"), nil},
			{"cat <<-EOF\n\trm x\n\tEOF\nrm y", do("cat", "rm y"), nil},
			{"cat <<A <<B; rm z\n$(rm a)\nA\n$(rm b)\nB", do("cat", "rm a", "rm b", "rm z"), nil},
			{"cat <<EOF > f && rm x\nrm y\nEOF", do("cat", "rm x"), nil},
			{"cat <<$'E\\x4fF'\nEOF\nrm x\nE\\x4fF", do("cat"), because("unparsable: unusual end of a here-document")},
			{"cat <<\"a\\\"b\"\nx\na\\\"b", do("cat"), because("unparsable: unusual end of a here-document")},
			{"cat <<EOF\nrm x", nil, because("unparsable: 1:5: unclosed here-document")},
			{"bash <<'EOF'\nrm $x\nEOF", do("bash", "bash > rm <$x>"), nil},
			{"bash <<EOF\nrm $x \\$y\nEOF", do("bash", "bash > rm <$x> <$y>"), because("bash of a computed string")},
			{"bash <<< 'rm -rf /'", do("bash", "bash > rm -rf /"), nil},
			{"sudo sh -s <<< \"rm $x\"", do("sudo sh -s", "sudo > sh -s", "sudo > sh > rm <$x>"), because("sh of a computed string")},
			{"{ sh; } <<'EOF'\nrm x\nEOF", do("sh", "sh > rm x"), nil},
		},
		"shells": {
			{"sh -c 'rm -rf /'", do(`sh -c "rm -rf /"`, "sh -c > rm -rf /"), nil},
			{"/bin/bash -lc 'rm x'", do(`/bin/bash -lc "rm x"`, "bash -c > rm x"), nil},
			{"bash -xec 'rm x'", do(`bash -xec "rm x"`, "bash -c > rm x"), nil},
			{"bash -euo pipefail -c 'rm x'", do(`bash -euo pipefail -c "rm x"`, "bash -c > rm x"), nil},
			{"bash -o pipefail +x -O extglob -c -- 'rm x' a", do(`bash -o pipefail +x -O extglob -c -- "rm x" a`, "bash -c > rm x"), nil},
			{"bash --norc --rcfile f -c 'rm x'", do(`bash --norc --rcfile f -c "rm x"`, "bash -c > rm x"), nil},
			{"bash -c -x 'rm x'", do(`bash -c -x "rm x"`, "bash -c > rm x"), nil},
			{"zsh -c 'rm x'; ksh -c 'rm y'; dash -c 'rm z'", do(`zsh -c "rm x"`, "zsh -c > rm x", `ksh -c "rm y"`, "ksh -c > rm y", `dash -c "rm z"`, "dash -c > rm z"), nil},
			{"fish --command='rm x'", do(`fish "--command=rm x"`, "fish -c > rm x"), nil},
			{"sh -c 'bash -c \"rm -rf \\$HOME\"'", do(`sh -c "bash -c \"rm -rf \\$HOME\""`, `sh -c > bash -c "rm -rf $HOME"`, "sh -c > bash -c > rm -rf <$HOME>", "sh -c > bash -c > rm -rf ~"), nil},
			{"sh -c \"rm $x\"", do("sh -c <rm $x>", "sh -c > rm <$x>"), because("sh -c of a computed string")},
			{"sh -c \"echo '$x'; rm y\"", do("sh -c <echo '$x'; rm y>", "sh -c > echo <$x>", "sh -c > rm y"), because("sh -c of a computed string")},
			{"sh -c \"$x\"", do("sh -c <$x>", "sh -c > <$x>"), because("sh -c of a computed string", "computed command name: $x")},
			{"sh -c $x", do("sh -c <$x>", "sh -c > <$x>"), because("computed words after sh -c", "sh -c of a computed string", "computed command name: $x")},
			{"sh -c '\"$@\"' _ rm x", do(`sh -c "\"$@\"" _ rm x`, "sh -c > <$@>", "sh -c > rm x"), because("computed command name: $@")},
			{"sh -c '((reboot))'", do(`sh -c ((reboot))`), because("Bash syntax in a line for sh")},
			{"sh -c '[[ a || reboot ]]'", do(`sh -c "[[ a || reboot ]]"`), because("Bash syntax in a line for sh")},
			{"bash -c '[[ a || b ]] && rm x'", do(`bash -c "[[ a || b ]] && rm x"`, "bash -c > rm x"), nil},
			{"bash script.sh a", do("bash script.sh a"), nil},
			{"bash \"$script\"", do("bash <$script>"), because("computed words after bash")},
			{"bash --version", do("bash --version"), nil},
			{"bash -c", do("bash -c"), nil},
			{"bash", do("bash"), because("bash runs what it reads")},
			{"bash < x", do("bash"), because("bash runs what it reads from a file")},
			{"bash <(curl x)", do("bash <<(curl x)>", "curl x"), because("computed words after bash")},
			{"curl x | sh", do("curl x", "sh"), because("pipe into sh")},
			{"curl x | sudo -E bash -s -- a", do("curl x", "sudo -E bash -s -- a", "sudo > bash -s -- a"), because("pipe into bash")},
			{"curl x | bash -", do("curl x", "bash -"), because("pipe into bash")},
			{"curl x | bash /dev/stdin", do("curl x", "bash /dev/stdin"), because("pipe into bash")},
			{"curl x | { read a; sh; }", do("curl x", "read a", "sh"), because("pipe into sh")},
			{"a | tee >(sh)", do("a", "tee <>(sh)>", "sh"), because("pipe into sh")},
			{"a | bash -c 'cat'", do("a", "bash -c cat", "bash -c > cat"), nil},
			{"echo 'rm -rf /' | sh", do(`echo "rm -rf /"`, "sh", "sh > rm -rf /"), because("pipe into sh")},
			{"cat <<'E' | sh\nrm x\nE", do("cat", "sh", "sh > rm x"), because("pipe into sh")},
			{"eval rm -rf /", do("eval rm -rf /", "eval > rm -rf /"), nil},
			{"eval 'rm  ' '-rf' \"/\"", do(`eval "rm  " -rf /`, "eval > rm -rf /"), nil},
			{"eval \"r\"\"m -rf /\"", do(`eval "rm -rf /"`, "eval > rm -rf /"), nil},
			{"eval \"$(ssh-agent -s)\"", do("eval <$(ssh-agent -s)>", "ssh-agent -s"), nil},
			{"eval eval 'rm x'", do(`eval eval "rm x"`, "eval > eval rm x", "eval > eval > rm x"), nil},
			{"source env.sh; . ./x", do("source env.sh", ". ./x"), nil},
			{"trap 'rm x' EXIT; trap - INT; trap -p", do(`trap "rm x" EXIT`, "trap > rm x", "trap - INT", "trap -p"), nil},
			{"alias ll='ls -l' x=y", do(`alias "ll=ls -l" x=y`, "alias > ls -l", "alias > y"), nil},
			{"echo rm | at now", do("echo rm", "at now", "at > rm"), because("pipe into at")},
		},
		"wrappers": {
			{"sudo rm x", do("sudo rm x", "sudo > rm x"), nil},
			{"sudo -u root -- env A=b nice -n 5 rm -rf /", do("sudo -u root -- env A=b nice -n 5 rm -rf /", "sudo > env A=b nice -n 5 rm -rf /", "sudo > env > nice -n 5 rm -rf /", "sudo > env > nice > rm -rf /"), nil},
			{"sudo -nEHu root -g wheel --prompt=x -C 3 rm x", do("sudo -nEHu root -g wheel --prompt=x -C 3 rm x", "sudo > rm x"), nil},
			{"sudo --user root A=b -n rm x", do("sudo --user root A=b -n rm x", "sudo > rm x"), nil},
			{"sudo -l rm; sudo -v; sudo -e f", do("sudo -l rm", "sudo -v", "sudo -e f"), nil},
			{"sudo -i", do("sudo -i"), because("sudo runs what it reads")},
			{"x | sudo -s", do("x", "sudo -s"), because("pipe into sudo")},
			{"sudo $OPTS rm x", do("sudo <$OPTS> rm x", "sudo > <$OPTS> rm x", "sudo > rm x"), because("computed command name: $OPTS")},
			{"sudo \"$x\" -rf /", do("sudo <$x> -rf /", "sudo > <$x> -rf /", "sudo > /"), because("computed command name: $x")},
			{"sudo -u $u rm x", do("sudo -u <$u> rm x", "sudo > <$u> rm x", "sudo > rm x"), because("computed command name: $u")},
			{"doas -u root rm x", do("doas -u root rm x", "doas > rm x"), nil},
			{"su -c 'rm x' root; su - bob -c 'rm y'", do(`su -c "rm x" root`, "su -c > rm x", `su - bob -c "rm y"`, "su -c > rm y"), nil},
			{"su bob", do("su bob"), because("su runs what it reads")},
			{"env", do("env"), nil},
			{"env -i -u X --chdir=/ A=b C= rm x", do("env -i -u X --chdir=/ A=b C= rm x", "env > rm x"), nil},
			{"env - rm x", do("env - rm x", "env > rm x"), nil},
			{"env -S 'rm -rf /' y", do(`env -S "rm -rf /" y`, "env -S > env rm -rf / y", "env -S > env > rm -rf / y"), nil},
			{`env -S'-i A=b rm\_-rf\_/'`, do(`env "-S-i A=b rm\\_-rf\\_/"`, "env -S > env -i A=b rm -rf /", "env -S > env > rm -rf /"), nil},
			{"env A=\"$x\" rm y", do("env <A=$x> rm y", "env > rm y"), nil},
			{"command rm x; builtin cd x; command -v rm", do("command rm x", "command > rm x", "builtin cd x", "builtin > cd x", "command -v rm"), nil},
			{"exec -a y rm x; exec 3<f", do("exec -a y rm x", "exec > rm x", "exec"), nil},
			{"nohup rm x &", do("nohup rm x", "nohup > rm x"), nil},
			{"/usr/bin/time -f %e -o f rm x", do("/usr/bin/time -f %e -o f rm x", "time > rm x"), nil},
			{"timeout -k 5 -s KILL 10s rm x", do("timeout -k 5 -s KILL 10s rm x", "timeout > rm x"), nil},
			{"timeout --sig=KILL --kill-after 3 5 rm x", do("timeout --sig=KILL --kill-after 3 5 rm x", "timeout > rm x"), nil},
			{"timeout $t rm x", do("timeout <$t> rm x", "timeout > <$t> rm x", "timeout > rm x"), because("computed command name: $t")},
			{"nice rm x; nice -10 rm y; nice -n 5 rm z", do("nice rm x", "nice > rm x", "nice -10 rm y", "nice > rm y", "nice -n 5 rm z", "nice > rm z"), nil},
			{"ionice -c2 -n 7 rm x", do("ionice -c2 -n 7 rm x", "ionice > rm x"), nil},
			{"stdbuf -oL -e 0 rm x", do("stdbuf -oL -e 0 rm x", "stdbuf > rm x"), nil},
			{"setsid -w rm x", do("setsid -w rm x", "setsid > rm x"), nil},
			{"flock -w 5 /l rm x; flock /l -c 'rm y'", do("flock -w 5 /l rm x", "flock > rm x", `flock /l -c "rm y"`, "flock -c > rm y"), nil},
			{"chroot --userspec a /mnt rm x", do("chroot --userspec a /mnt rm x", "chroot > rm x"), nil},
			{"busybox rm x", do("busybox rm x", "busybox > rm x"), nil},
			{"watch -n 1 'rm x; ls'", do(`watch -n 1 "rm x; ls"`, "watch > rm x", "watch > ls"), nil},
			{"noglob rm x; - rm y; repeat 3 rm z", do("noglob rm x", "noglob > rm x", "- rm y", "- > rm y", "repeat 3 rm z", "repeat > rm z"), nil},
			{"npx -y eslint .; npx -c 'rm x'", do("npx -y eslint .", "npx > eslint .", `npx -c "rm x"`, "npx -c > rm x"), nil},
			{"npm exec -- rm x; npm x rm y", do("npm exec -- rm x", "npm exec > rm x", "npm x rm y", "npm x > rm y"), nil},
			{"bundle exec rm x; poetry run rm y; uv run --with a rm z", do("bundle exec rm x", "bundle exec > rm x", "poetry run rm y", "poetry run > rm y", "uv run --with a rm z", "uv run > rm z"), nil},
			{"git rebase -x 'rm x' main; git rebase --exec='rm y'", do(`git rebase -x "rm x" main`, "git rebase -x > rm x", `git rebase "--exec=rm y"`, "git rebase --exec > rm y"), nil},
			{"env --split 'rm x'; flock --comm 'rm y' /l; unshare --roo /r rm z", do(`env --split "rm x"`, "env -S > env rm x", "env -S > env > rm x",
				`flock --comm "rm y" /l`, "flock --command > rm y", "unshare --roo /r rm z", "unshare > rm z"), nil},
			{"runuser -u bob -- rm x; runuser bob -c 'rm y'", do("runuser -u bob -- rm x", "runuser > rm x", `runuser bob -c "rm y"`, `runuser > bob -c "rm y"`, "runuser -c > rm y"), nil},
			{"sg docker 'rm x'; sg docker -c 'rm y'", do(`sg docker "rm x"`, "sg > rm x", `sg docker -c "rm y"`, "sg -c > rm y"), nil},
			{"git bisect run rm x; git submodule -q foreach 'rm y'; git filter-branch --tree-filter 'rm z'", do("git bisect run rm x", "git bisect run > rm x",
				`git submodule -q foreach "rm y"`, "git submodule foreach > rm y", `git filter-branch --tree-filter "rm z"`, "git filter-branch --tree-filter > rm z"), nil},
			{"bundle $x rm", do("bundle <$x> rm"), because("computed subcommand of bundle")},
			{"git -C $x log; docker $x", do("git -C <$x> log", "docker <$x>"), because("computed subcommand of docker")},
			{"direnv exec . rm x", do("direnv exec . rm x", "direnv exec > rm x"), nil},
			{"SUDO rm x; rm.exe y", do("SUDO rm x", "SUDO > rm x", "rm.exe y"), nil},
			{"git -c alias.x='!rm -rf /' x", do(`git -c "alias.x=!rm -rf /" x`, "git -c > rm -rf /"), nil},
		},
		"xargs and find": {
			{"ls | xargs rm -f", do("ls", "xargs rm -f", "xargs > rm -f <...>"), nil},
			{"xargs -0 -n 1 -P4 -d '\\n' -a f rm", do(`xargs -0 -n 1 -P4 -d \n -a f rm`, "xargs > rm <...>"), nil},
			{"xargs", do("xargs"), nil},
			{"xargs -I{} rm -rf {}/x", do("xargs -I{} rm -rf {}/x", "xargs > rm -rf <{}/x>"), nil},
			{"xargs -I % sh -c 'rm %'", do(`xargs -I % sh -c "rm %"`, "xargs > sh -c <rm %>", "xargs > sh -c > rm <%>"), because("sh -c of a computed string")},
			{"xargs -0 -I{} sh -c 'rm -rf {}'", do(`xargs -0 -I{} sh -c "rm -rf {}"`, "xargs > sh -c <rm -rf {}>", "xargs > sh -c > rm -rf <{}>"), because("sh -c of a computed string")},
			{"xargs -i rm {}; xargs --replace rm {}; xargs --replace=@ rm @", do("xargs -i rm {}", "xargs > rm <{}>", "xargs --replace rm {}", "xargs > rm <{}>", "xargs --replace=@ rm @", "xargs > rm <@>"), nil},
			{"xargs --max-lines rm", do("xargs --max-lines rm", "xargs > rm <...>"), nil},
			{"xargs -I@ @ x", do("xargs -I@ @ x", "xargs > <@> x"), because("computed command name: @")},
			{"xargs sh -c", do("xargs sh -c", "xargs > sh -c <...>", "xargs > sh -c > <...>"), because("computed words after sh -c", "sh -c of a computed string", "computed command name")},
			{"xargs sudo rm", do("xargs sudo rm", "xargs > sudo rm <...>", "xargs > sudo > rm <...>"), nil},
			{"find . -name x -exec rm -rf {} +", do("find . -name x -exec rm -rf {} +", "find -exec > rm -rf <{}>"), nil},
			{`find . -exec rm {} \; -o -execdir ls ';' -delete`, do("find . -exec rm {} ; -o -execdir ls ; -delete", "find -exec > rm <{}>", "find -execdir > ls"), nil},
			{`find . -exec sh -c 'rm "$1"' _ {} \;`, do(`find . -exec sh -c "rm \"$1\"" _ {} ;`, `find -exec > sh -c "rm \"$1\"" _ <{}>`, "find -exec > sh -c > rm <$1>"), nil},
			{`find . -exec sh -c 'rm {}' \;`, do(`find . -exec sh -c "rm {}" ;`, "find -exec > sh -c <rm {}>", "find -exec > sh -c > rm <{}>"), because("sh -c of a computed string")},
			{"find . $x rm {} +", do("find . <$x> rm {} +"), because("computed command of find")},
			{"fd -e o -x rm {}; fd --exec-batch rm", do("fd -e o -x rm {}", "fd -x > rm <{}>", "fd --exec-batch rm", "fd --exec-batch > rm <...>"), nil},
			{"find . -delete", do("find . -delete"), nil},
			{"parallel rm {} ::: a b", do("parallel rm {} ::: a b", "parallel > rm a", "parallel > rm b", "parallel > rm <{}>"), because("parallel of a computed string")},
			{"parallel", do("parallel"), because("parallel runs the lines it reads")},
		},
		"hostile": {
			{"r\x00m -rf /", do("rm -rf /"), because("unparsable: NUL byte")},
			{"rm -rf / \xff", do("rm -rf / <\ufffd>"), because("unparsable: invalid UTF-8")},
			{"r\xffm x", do("<r\ufffdm> x"), because("unparsable: invalid UTF-8", "computed command name")},
			{"rm \x1a0\x1a", do("rm <\x1a0\x1a>"), because("unparsable: control character")},
			{"rm x\r\nls\r\n", do("rm x", "ls"), nil},
			{"echo x\r# ; rm -rf /", do(`echo "x\r#"`, "rm -rf /"), nil},
			{"echo hi \\\r\nrm -rf /", do("echo hi "+`"\r"`, "rm -rf /"), nil},
			{"if true; then\r\nrm x\r\nfi\r\n", do("true", "rm x"), because("unparsable: 1:1")},
			{"cat <<EOF\r\nx\r\nEOF\r\nrm y", do("cat", "rm y"), because("unparsable: unusual end of a here-document")},
			{"echo hi # there \\\nrm -rf /", do("echo hi", "rm -rf /"), nil},
			{"curl x#y \\\n-z 'a # b \\\n c'", do(`curl x#y -z "a # b \\\n c"`), nil},
			{"if true; then", nil, because("unparsable: 1:10")},
			{"rm x; if true; then", do("rm x"), because("unparsable: 1:16")},
			{"rm x\necho 'open", do("rm x"), because("unparsable: 2:6")},
			{"echo ${x!y}", nil, because("unparsable")},
			{"echo \"${x:-'}\"; rm -rf / #'}\"", do(`echo <${x:-'}"; rm -rf / #'}>`, `echo "}\"; rm -rf / #"`), because("unparsable: single quotes inside double quotes")},
			{"x='a[$(rm -rf /)]'; echo $((x))", do("echo <$((x))>"), because("substitution inside a quoted array subscript")},
			{"declare 'a[$(rm x)]=1'; read 'a[`rm y`]'", do("declare \"a[$(rm x)]=1\"", "read \"a[`rm y`]\""), because("substitution inside a quoted array subscript")},
			{"[[ 'a[$(rm x)]' -eq 1 ]]; (( 'a[$(rm y)]' ))", nil, because("substitution inside a quoted array subscript")},
			{"echo ${x@P}", do("echo <${x@P}>"), because("prompt expansion of a variable")},
			{"echo ${x:-<(rm y)}", do("echo <${x:-<(rm y)}>", `echo "<(rm" y)`), because("process substitution inside ${}")},
			{"let ${x}<(rm)", do("let"), because("unparsable: let")},
			{"echo @(a|$(rm x))", do(`echo "@(a|$(rm x))"`), because("substitution inside an extended glob")},
			{"ls *(e:'rm x':)", do(`ls "*(e:'rm x':)"`), because("substitution inside an extended glob")},
			{"ls !(node_modules) @(a|b)", do("ls !(node_modules) @(a|b)"), nil},
			{"a &>f rm -rf /", do("a rm -rf /"), because("words after &>")},
			{"a+=x rm y; ((1); b)", do("a+=x rm y", "1", "b"), because("unparsable")},
			{"ls *(.N) x(/) && rm y", do("ls *(.N) x(/)", "rm y"), because("unparsable")}, // Zsh
			{"=(rm x)", do("<=(rm x)>", "rm x"), because("unparsable", "computed command name")},
			{"echo a\\", do(`echo a\`), nil},
			{")", nil, because("unparsable")},
			{"${", nil, because("unparsable")},
			{"$'\\x", nil, because("unparsable")},
		},
	}
	n := 0
	for name, cases := range groups {
		n += len(cases)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases {
				s := Parse(c.line)
				if diff := cmp.Diff(c.commands, renderAll(s)); diff != "" {
					t.Errorf("Parse(%q).Commands (-want +got):\n%s", c.line, diff)
				}
				ok := len(s.Unknown) == len(c.unknown)
				for i := 0; ok && i < len(c.unknown); i++ {
					ok = strings.HasPrefix(s.Unknown[i], c.unknown[i])
				}
				if !ok {
					t.Errorf("Parse(%q).Unknown = %q, want %q", c.line, s.Unknown, c.unknown)
				}
			}
		})
	}
	if n < 200 {
		t.Errorf("only %d lines are tested", n)
	}
}

func TestParseFields(t *testing.T) {
	t.Parallel()
	type fields struct {
		Name, Path string
		Line, Col  int
	}
	tests := map[string][]fields{
		"/bin/rm x":            {{"rm", "/bin/rm", 1, 1}},
		"a=b  \\rm x\n ls":     {{"rm", "rm", 1, 6}, {"ls", "ls", 2, 2}},
		"RM.EXE x":             {{"RM", "RM.EXE", 1, 1}},
		"=rm":                  {{"rm", "=rm", 1, 1}},
		"a; sh -c '\n\n rm x'": {{"a", "a", 1, 1}, {"sh", "sh", 1, 4}, {"rm", "rm", 1, 4}},
		"$x a":                 {{"", "$x", 1, 1}},
		`"$V/bin/py" a`:        {{"py", "$V/bin/py", 1, 1}},
		"echo $(\n  rm x)":     {{"echo", "echo", 1, 1}, {"rm", "rm", 2, 3}},
		"bin/":                 {{"", "bin/", 1, 1}},
		".exe":                 {{".exe", ".exe", 1, 1}},
	}
	for line, want := range tests {
		var got []fields
		for _, c := range Parse(line).Commands {
			got = append(got, fields{c.Name, c.Path, c.Line, c.Col})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%q).Commands (-want +got):\n%s", line, diff)
		}
	}
}

func TestParseRedirections(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ reads, writes []string }{
		"a > out":                       {nil, []string{"out"}},
		"a >> out 2> err":               {nil, []string{"out", "err"}},
		"a >| 'o ut'":                   {nil, []string{"o ut"}},
		"a &> all; b &>> more":          {nil, []string{"all", "more"}},
		"a >& all":                      {nil, []string{"all"}},
		"a 2>&1 >&- <&3 3>&2-":          {nil, nil},
		"a < in <> both":                {[]string{"in", "both"}, []string{"both"}},
		"a > $x > \"$y\" > z":           {nil, []string{"z"}},
		"a > ~/f > /etc/\\hosts":        {nil, []string{"~/f", "/etc/hosts"}},
		"{ a; } > x; (b) < y":           {[]string{"y"}, []string{"x"}},
		"> empty":                       {nil, []string{"empty"}},
		"cat <<E > f\n> no\nE":          {nil, []string{"f"}},
		"cat <<< in":                    {nil, nil},
		"echo $(a > in1) \"`b > in2`\"": {nil, []string{"in1", "in2"}},
		"sh -c 'a > f'":                 {nil, []string{"f"}},
		"echo '> f' # > g":              {nil, nil},
		"a | b > f | c":                 {nil, []string{"f"}},
		"f() { a > x; }":                {nil, []string{"x"}},
	}
	for line, want := range tests {
		s := Parse(line)
		if diff := cmp.Diff(want.reads, s.Reads); diff != "" {
			t.Errorf("Parse(%q).Reads (-want +got):\n%s", line, diff)
		}
		if diff := cmp.Diff(want.writes, s.Writes); diff != "" {
			t.Errorf("Parse(%q).Writes (-want +got):\n%s", line, diff)
		}
	}
}

func TestCommandString(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"rm -rf /":                            "rm -rf /",
		"sudo sh -c 'rm a\\ b'":               "rm 'a b' (behind sudo, sh -c)",
		"echo '' it\\'s":                      `echo '' 'it'\''s'`,
		"echo 'a\nb'":                         `echo a\nb`,
		"echo " + strings.Repeat("word ", 99): "echo " + strings.Repeat("word ", 40) + "...",
	}
	for line, want := range tests {
		s := Parse(line)
		if got := s.Commands[len(s.Commands)-1].String(); got != want {
			t.Errorf("String of the last command of %q = %q, want %q", line, got, want)
		}
	}
	s := Parse("echo '" + strings.Repeat("x", 5000) + "'")
	if got := s.Commands[0].String(); len(got) > 300 {
		t.Errorf("String of a long command has %d bytes", len(got))
	}
}

package shell

import (
	"strings"
	"testing"
)

// A matchCase is a pattern and the lines that it is compared with.
type matchCase struct {
	pattern          string
	yes, no, unknown []string
}

func lines(l ...string) []string { return l }

func TestMatch(t *testing.T) {
	t.Parallel()
	cases := []matchCase{
		{
			pattern: "git push --force",
			yes: lines("git push --force", "git push -f", "git push origin main --force", "git push -uf origin", "git -C x push -f",
				"git -c a=b --git-dir=x --work-tree y push -f", "git --no-pager push -f", "git --foo x push -f", "git push --force=true",
				"git push --forc", "git push origin +main", "/usr/bin/git push -f", "cd x && git push -f", "sudo git push -f",
				"sh -c 'git push -f'", "GIT push -f", "git push --no-verify --force -- origin"),
			no: lines("git push", "git push --force-with-lease", "git push --force-with-lease=a --force-if-includes", "git push --force=false",
				"git push --forcex", "git push -u origin", "git push -- --force", "git push -o --force", "git push --push-option -f",
				"git stash push --force", "git log --force push", "git commit -m 'git push --force'", "git commit -m push --force",
				"echo git push --force", "push --force", "# git push --force", `git push "feature/$x"`, `"$x" push`, `git commit -m "$x"`),
			unknown: lines("git push $FLAGS", `git push "$x"`, "git push feature/$x", "git $x", "git $x --force", "$x", "$x --force",
				`"$x" push --force`, "git -C $x", "g* push -f", "xargs git push"),
		},
		{
			pattern: "git push",
			yes:     lines("git push", "git push origin main", "git -C push push", "git push --force"),
			no:      lines("git stash push", "git help push", "git -C push", "push", "git"),
			unknown: lines("git $cmd", `git "$cmd" origin`),
		},
		{
			pattern: "rimraf x", // a downloaded program has its version after its name
			yes: lines("npx rimraf x", "npx rimraf@5 x", "npx -y rimraf@latest x", "npm exec rimraf@5 -- x", "npm x rimraf@^5.0 x", "pnpm dlx rimraf@5 x", "bunx rimraf@5 x",
				"bun x rimraf@5 x", "yarn dlx rimraf@5 x", "yarn dlx -p rimraf@5 rimraf x", "uvx rimraf==1.2 x", "uvx rimraf@1.2 x", "uvx --from rimraf==1 rimraf x", "uvx 'rimraf[a]>=1' x",
				"pipx run rimraf==1 x", "pipx run --spec rimraf==1 rimraf x", "uv tool run rimraf@1 x", "uv tool run --from y rimraf x", "npx @scope/rimraf@5 x"),
			no: lines("npx rimraf@5 y", "npx rimraf-cli@5 x", "npx @rimraf/y@5 x", "uv tool install rimraf==1 x", "pipx install rimraf x", "npx -p rimraf@5 y x"),
		},
		{
			pattern: "rm -rf", // for an option that continues with a computed word, the known part is used
			yes:     lines("rm -rf$X /", `rm -rf"$X" /`, "rm -r$X -f /", "rm -f -r${X}v /"),
			no:      lines("rm -- -rf$X /"),
			unknown: lines("rm -f$X /", `rm -v"$X" -r /`),
		},
		{pattern: "npx rimraf@5", yes: lines("npx rimraf@5 x"), no: lines("npx rimraf x", "npx rimraf@4 x", "rimraf@5 x")},
		{pattern: "npx *@latest", yes: lines("npx rimraf@latest", "npx @a/b@latest x"), no: lines("npx rimraf", "npx rimraf@4 x@latest")},
		{pattern: "push", yes: lines("push", "./push x"), no: lines("git push", "echo push")},
		{
			pattern: "git push origin main",
			yes:     lines("git push origin main", "git push -u origin dev main"),
			no:      lines("git push main origin", "git push upstream main", "git push origin"),
			unknown: lines(`git push origin "$branch"`, "git push $where"),
		},
		{pattern: "git push --force origin", yes: lines("git push -f origin main", "git push origin --force"), no: lines("git push -f upstream")},
		{pattern: "git push --delete", yes: lines("git push origin --delete x", "git push -d origin x", "git push origin :x"), no: lines("git push origin a:b")},
		{pattern: "git -C /srv push", yes: lines("git -C /srv push", "git -C/srv push"), no: lines("git push", "git -C /x push")},
		{pattern: "git branch -D", yes: lines("git branch -D x", "git branch -d -f x", "git branch --delete --force x"), no: lines("git branch -d x", "git branch -f x")},
		{pattern: "git branch -d", yes: lines("git branch -D x", "git branch --delete x"), no: lines("git branch x")},
		{pattern: "git clean -fdx", yes: lines("git clean -fdx", "git clean -d -x --force", "git clean -fdxq"), no: lines("git clean -fd", "git clean -e x -fd")},
		{pattern: "git reset --hard", yes: lines("git reset --hard", "git reset HEAD~1 --hard", "git reset --ha"), no: lines("git reset --soft", "git reset hard")},
		{pattern: "git checkout -f", yes: lines("git checkout -f x", "git checkout --force"), no: lines("git checkout f", "git checkout -b f")},
		{
			pattern: "git checkout --pathspec-from-file",
			yes: lines("git checkout .", "git checkout ..", "git checkout ../..", "git checkout ../src", "git checkout ./a", "git checkout src/", "git checkout src/..", "git checkout .github",
				"git checkout ':(top)'", "git checkout ':!x'", "git checkout :/", "git checkout ~/proj", "git checkout ~", "git checkout /abs/path", "git checkout 'a b'", "git checkout *", "git checkout 'src/[ab]'",
				`git checkout "$(git rev-parse --show-toplevel)"`, `git checkout '..\src'`, "git checkout go.lock", "git checkout -- src", `git checkout -- "$x"`, "git checkout HEAD -- src", "git checkout HEAD~2 ..",
				"git checkout --pathspec-from-file=list", `git checkout "../$x"`, `git checkout "/srv/$x"`),
			no: lines("git checkout main", "git checkout feature/x", "git checkout v1.2.3", "git checkout HEAD~3", "git checkout HEAD^", "git checkout main^2~1", "git checkout 'HEAD^{/fix bug}'", "git checkout @", "git checkout -",
				"git checkout @{-1}", "git checkout 'main@{1 day ago}'", "git checkout 'HEAD@{u}'", "git checkout origin/main...HEAD", "git checkout 0a1b2c3", "git checkout --detach HEAD~1", "git checkout main --", "git switch ..", "git checkout",
				`git checkout "feature/$x"`),
			unknown: lines("git checkout $BRANCH", `git checkout "$x"`),
		},
		{pattern: "git commit --amend", yes: lines("git commit --amend -m x"), no: lines("git commit -m --amend", "git commit --message=--amend", `git commit --message="$x"`, `git commit -m"$x"`)},
		{
			pattern: "rm -rf",
			yes: lines("rm -rf x", "rm -r -f x", "rm -fr x", "rm x -rf", "rm -R --force x", "rm --recursive --force x", "rm --rec --fo x", "rm -rfv x",
				`rm -rf "$x"`, "rm -rf $x", "RM -rf /", "rm.exe -rf /", `\rm -r"f" x`, "rm -{r,f} x", "find . -exec rm -rf {} +", "ls | xargs rm -rf",
				"sh -c \"rm -rf $x\"", "f() { rm -rf x; }", "echo $(rm -rf x)", "cat <<E\n`rm -rf x`\nE"),
			no:      lines("rm -r x", "rm x", "rm -- -rf", "rmdir -rf", "rm rf", "find . -exec rm {} +", `rm -- "$x"`, `rm -r "a$x"`, "echo 'rm -rf'", "cat <<'E'\nrm -rf x\nE"),
			unknown: lines("rm $x", `rm "$x"`, "rm -r $x a", `rm -r "-$x"`, "ls | xargs rm", `rm "$@"`, `rm -r "${a[@]}"`, "$x -rf y"),
		},
		{
			pattern: "rm -rf /",
			yes:     lines("rm -rf /", "rm / -rf", "rm -rf //", "rm -rf /./", "rm -rf /usr/..", "rm -rf x / y", "rm -rf --no-preserve-root /"),
			no:      lines("rm -rf /usr", "rm -rf x", "rm -f /", `rm -rf "./$x"`),
			unknown: lines("rm -rf $x", `rm -rf "/$x"`, "rm -r / $x"),
		},
		{pattern: "rm -rf /*", yes: lines("rm -rf /", "rm -rf /*", "rm -rf /etc /x"), no: lines("rm -rf x", "rm -rf ./x"), unknown: lines("rm -rf \"$x\"")},
		{pattern: "rm -rf $HOME", yes: lines("rm -rf $HOME", `rm -rf "$HOME"`, "rm -rf ${HOME}", `rm -rf "${HOME}"/`), no: lines("rm -rf x", `rm -r "./$HOME"`), unknown: lines("rm -rf $x", "rm $HOME")},
		{pattern: "rm -rf ~", yes: lines("rm -rf ~", "rm -rf ~/"), no: lines("rm -rf ~/x")},
		{pattern: "rm '*'", yes: lines("rm '*'", "rm *"), no: lines("rm x")},
		{pattern: "rm a b", yes: lines("rm a b", "rm x a -f y b z"), no: lines("rm b a", "rm a")},
		{pattern: "chmod 777", yes: lines("chmod 777 x", "chmod -R 777 x", "chmod --ref x 777"), no: lines("chmod 755 x", "chmod 1777 x", "chmod --reference 777 x")},
		{pattern: "chmod -R 777", yes: lines("chmod -R 777 x", "chmod 777 / --recursive"), no: lines("chmod 777 x")},
		{
			pattern: "dd of=/dev/*",
			yes:     lines("dd if=x of=/dev/sda", "sudo dd of=/dev/mapper/x bs=1M", "dd of=/dev//sda"),
			no:      lines("dd if=/dev/zero of=x", `dd "of=./$x"`),
			unknown: lines("dd of=$x", `dd "of=$x"`, `dd "of=/dev/$x"`),
		},
		{pattern: "npm publish", yes: lines("npm publish", "npm --prefix x -w a publish --access public", "npm --silent publish", "npm publish --dry-run"), no: lines("npm run publish", "npm install publish")},
		{pattern: "npm run test", yes: lines("npm run test", "npm run-script test", "npm --silent run --x test -- -y"), no: lines("npm run evil test", "npm test")},
		{pattern: "npm install left-pad", yes: lines("npm i left-pad", "npm install -D x left-pad"), no: lines("npm install x")},
		{pattern: "docker rm web", yes: lines("docker rm db web"), no: lines("docker rm db")},
		{pattern: "docker compose rm -v", yes: lines("docker compose -f x rm -f -v", "docker compose rm -fv"), no: lines("docker compose rm -f", "docker compose down -v")},
		{pattern: "npm install -g", yes: lines("npm i -g x", "npm install --global x", "npm -g add x"), no: lines("npm install x", "npm install -D g")},
		{
			pattern: "sudo",
			yes:     lines("sudo rm", "sudo -n true", "x | sudo bash", "/usr/bin/sudo x", "env sudo x", "time sudo x"),
			no:      lines("echo sudo", "sudoedit x", "git commit -m sudo"),
		},
		{
			pattern: "sudo rm -rf",
			yes:     lines("sudo rm -rf x", "sudo -u root rm -fr x", "sudo sh -c 'rm -rf x'", "sudo env A=b rm -rf x", "sudo sudo rm -rf x"),
			no:      lines("rm -rf x; sudo ls", "sudo ls -rf", "sudo rm x", "doas rm -rf x"),
			unknown: lines("sudo rm $x", "sudo $x", `sudo "$x" -rf /`),
		},
		{pattern: "sudo -u root", yes: lines("sudo -u root ls", "sudo -nuroot ls", "sudo --user=root ls", "sudo A=b -u root ls"), no: lines("sudo ls -u root", "sudo -u bob ls"), unknown: lines(`sudo -u "$x" ls`)},
		{pattern: "xargs rm", yes: lines("ls | xargs rm", "ls | xargs -0 rm -f"), no: lines("rm x", "xargs ls"), unknown: lines("xargs $x")},
		{pattern: "timeout rm", yes: lines("timeout 5 rm x", "timeout -k 3 5 rm x"), no: lines("timeout 5 ls")},
		{pattern: "timeout 5 rm", yes: lines("timeout 5 rm x"), no: lines("timeout 6 rm x")},
		{pattern: "env FOO=* make", yes: lines("env FOO=bar make x"), no: lines("env BAR=x make", "make FOO=x")},
		{pattern: "sh -c", yes: lines("sh -c x", "sh -ec x"), no: lines("bash -c x", "sh x -c")},
		{pattern: "eval", yes: lines("eval x", "eval \"$y\""), no: lines("echo eval")},
		{pattern: "find -delete", yes: lines("find . -name x -delete"), no: lines("find . -name x", "find . -d"), unknown: lines("find . $x")},
		{pattern: "docker rm '`'*", yes: lines("docker rm `docker ps -q`"), no: lines("docker rm web")},
		{pattern: "find -exec rm", yes: lines("find . -exec rm {} +"), no: lines("find . -exec ls {} +")},
		{pattern: "terraform destroy", yes: lines("terraform destroy", "terraform -chdir=x destroy -auto-approve", "terraform destroy -target x"), no: lines("terraform plan -destroy", "terraform state destroy")},
		{pattern: "terraform destroy -auto-approve", yes: lines("terraform destroy -auto-approve", "terraform destroy --auto-approve"), no: lines("terraform destroy", "terraform destroy -auto-approve=false")},
		{
			pattern: "kubectl delete namespace",
			yes: lines("kubectl delete namespace x", "kubectl -n a delete ns x", "kubectl delete -n a ns/foo", "kubectl --context prod delete namespaces x",
				"kubectl delete --grace-period 0 namespace x", "kubectl delete --unheard of namespace"),
			no:      lines("kubectl delete pod namespace", "kubectl get namespace", "kubectl delete -n namespace pod"),
			unknown: lines("kubectl delete $x"),
		},
		{pattern: "kubectl delete --force", yes: lines("kubectl delete pod x --force", "kubectl --force delete pod x", "kubectl delete pod x --force=true"), no: lines("kubectl delete pod x --force=false", "kubectl delete pod force")},
		{pattern: "kubectl delete --grace-period=0", yes: lines("kubectl delete pod x --grace-period 0", "kubectl delete pod --grace-period=0 x"), no: lines("kubectl delete pod --grace-period=30 x")},
		{pattern: "kubectl delete --all-namespaces", yes: lines("kubectl delete pod -A"), no: lines("kubectl delete pod --all")},
		{pattern: "docker rm -f", yes: lines("docker rm -f x", "docker -H tcp://x rm --force x", "docker --context a rm -vf x"), no: lines("docker run --rm -f x", "docker rm x")},
		{pattern: "docker compose down", yes: lines("docker compose down", "docker compose -f x.yml down -v", "docker compose --env-file e down"), no: lines("docker compose up", "docker down", "docker compose up down")},
		{pattern: "docker run --privileged", yes: lines("docker run --privileged x", "docker run -it --name a --privileged x"), no: lines("docker run x --privileged", "docker run --name --privileged x")},
		{pattern: "docker run -v /:*", yes: lines("docker run -v /:/host x", "docker run --volume=/:/h x"), no: lines("docker run -v /tmp:/host x"), unknown: lines(`docker run -v "$x" y`)},
		{pattern: "curl -X DELETE", yes: lines("curl -X DELETE u", "curl -sXDELETE u", "curl --request DELETE u", "curl --request=DELETE u"), no: lines("curl -X GET u", "curl DELETE", "curl -o DELETE u"), unknown: lines(`curl -X "$m" u`, `curl --request="$m" u`)},
		{pattern: "curl -o", yes: lines("curl -o x u", "curl -sox u", "curl --output x"), no: lines("curl -O u", "curl -X o u", "curl -dfoo u")},
		{pattern: "curl *://example.com/*", yes: lines("curl -s https://example.com/x"), no: lines("curl https://example.org/x", "curl -o https://example.com/ u")},
		{pattern: "cp -r", yes: lines("cp -R a b", "cp --recursive a b", "cp -ar a b"), no: lines("cp a b", "cp -t r a", "cp -tr a")},
		{pattern: "sed -i", yes: lines("sed -i s/a/b/ f", "sed -i.bak s/a/b/ f", "sed --in-place s f", "sed -ni p f", `sed -i"$x" s f`), no: lines("sed -n p f", "sed -e -i f", "sed -ei f")},
		{pattern: "tar -x", yes: lines("tar -xzf x", "tar --extract -f x"), no: lines("tar -czf x", "tar -cf -x")},
		{pattern: "make -j8", yes: lines("make -j8", "make --jobs=8"), no: lines("make -j4", "make -j")},
		{pattern: "make -j", yes: lines("make -j8", "make -j"), no: lines("make")},
		{pattern: "apt-get install -y", yes: lines("apt-get -y install x", "apt-get install --yes x", "apt-get -o a=b install --assume-yes x"), no: lines("apt-get install x", "apt-get -o -y install")},
		{pattern: "cargo publish", yes: lines("cargo publish", "cargo +nightly publish", "cargo --manifest-path x publish"), no: lines("cargo test publish")},
		{pattern: "aws s3 rm", yes: lines("aws s3 rm x", "aws --profile p s3 rm x", "aws --foo x s3 rm y"), no: lines("aws s3 ls rm", "aws --profile s3 rm")},
		{pattern: "gcloud compute instances delete", yes: lines("gcloud --project p compute instances delete x"), no: lines("gcloud compute instances list delete")},
		{pattern: "systemctl stop", yes: lines("systemctl stop x", "systemctl --user stop x", "systemctl -H h stop x"), no: lines("systemctl status stop")},
		{pattern: "gh pr merge --admin", yes: lines("gh pr merge 1 --admin", "gh -R a/b pr merge --admin"), no: lines("gh pr merge 1", "gh pr view --admin")},
		{pattern: "go test -run", yes: lines("go test -run X", "go test --run=X"), no: lines("go test -r -u -n", "go test")},
		{pattern: "kill -9", yes: lines("kill -9 1"), no: lines("kill 9", "kill -15 9")},
		{pattern: "foo bar", yes: lines("foo bar", "foo -x bar", "foo -x y bar", "foo --x=y bar"), no: lines("foo y bar", "bar", "foo --x=z y bar")},
		{pattern: "foo --bar", yes: lines("foo --bar", "foo x --bar=1"), no: lines("foo --ba", "foo -b", "foo -- --bar", "foo --bars")},
		{pattern: "foo --bar=1", yes: lines("foo --bar=1", "foo --bar 1"), no: lines("foo --bar=2", "foo --bar", "foo 1"), unknown: lines("foo --bar=\"$x\"")},
		{pattern: "foo -X DELETE", yes: lines("foo -X DELETE"), no: lines("foo DELETE", "foo -X GET")},
		{pattern: "foo -ab", yes: lines("foo -ab", "foo -b -a", "foo -xba", "foo -ab=1"), no: lines("foo -a", "foo --ab", "foo -a1b")},
		{pattern: "foo -delete", yes: lines("foo -delete", "foo -delete=yes"), no: lines("foo -d", "foo --delete")},
		{pattern: "mkfs.*", yes: lines("mkfs.ext4 /dev/sda", "/sbin/MKFS.xfs x"), no: lines("mkfs x"), unknown: lines("$x")},
		{pattern: "* --force", yes: lines("git push --force", "foo --force"), no: lines("ls")},
		{pattern: "./deploy.sh", yes: lines("./deploy.sh x"), no: lines("/x/deploy.sh", "bash ./deploy.sh")},
		{pattern: "/usr/bin/rm", yes: lines("/usr/bin/rm x"), no: lines("rm x", "/bin/rm x"), unknown: lines(`"$x/rm" y`)},
		{pattern: "rm  -r\t'a b'", yes: lines("rm -r 'a b'", "rm -r a\\ b"), no: lines("rm -r a b")},
		{pattern: `rm \*`, yes: lines("rm '*'"), no: lines("rm x")},
		{pattern: "rm [ab]?", yes: lines("rm a1", "rm bé"), no: lines("rm c1", "rm a12")},
		{pattern: "[ -f", yes: lines("[ -f x ]"), no: lines("test -f x", "[ x ]")},
		{pattern: "rm --", yes: lines("rm", "rm -f x")},
	}
	n := 0
	for _, c := range cases {
		t.Run(c.pattern, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.pattern)
			if err != nil {
				t.Fatal(err)
			}
			check := func(lines []string, want Answer) {
				for _, line := range lines {
					s := Parse(line)
					got, which := p.Match(s)
					if got != want {
						t.Errorf("Match(%q, %q) = %v, want %v; commands %q", c.pattern, line, got, want, renderAll(s))
					}
					if (which == nil) != (got == No) {
						t.Errorf("Match(%q, %q) = %v with command %v", c.pattern, line, got, which)
					}
					if got != No && !NewGate(line).May(p.Program()) {
						t.Errorf("NewGate(%q).May(%q) = false, but Match says %v", line, p.Program(), got)
					}
				}
			}
			check(c.yes, Yes)
			check(c.no, No)
			check(c.unknown, Unknown)
		})
		n += len(c.yes) + len(c.no) + len(c.unknown)
	}
	if n < 300 {
		t.Errorf("only %d lines are matched", n)
	}
}

func TestMatchCommand(t *testing.T) {
	t.Parallel()
	s := Parse("git fetch && git push -f | tee log; sudo rm -rf x")
	tests := map[string]string{
		"git":        "yes yes no no no",
		"git push":   "no yes no no no",
		"rm -rf":     "no no no no yes",
		"sudo rm":    "no no no no yes",
		"sudo":       "no no no yes no",
		"tee l*":     "no no yes no no",
		"git * -f":   "no yes no no no",
		"git pull":   "no no no no no",
		"doas rm -r": "no no no no no",
	}
	for pattern, want := range tests {
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range s.Commands {
			got = append(got, p.MatchCommand(s, i).String())
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("MatchCommand(%q) = %s, want %s", pattern, got, want)
		}
	}
	p, _ := Compile("sudo rm")
	if _, which := p.Match(s); which == nil || which.Name != "rm" {
		t.Errorf("Match(sudo rm) names %v, want the rm", which)
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()
	programs := map[string]string{
		"git push":     "git",
		"/usr/bin/Git": "git",
		"RM.exe -rf":   "rm",
		"mkfs.*":       "",
		"sudo rm":      "sudo",
		"'a b' c":      "a b",
		"\\rm":         "rm",
	}
	for pattern, want := range programs {
		p, err := Compile(pattern)
		if err != nil {
			t.Errorf("Compile(%q): %v", pattern, err)
			continue
		}
		if got := p.Program(); got != want {
			t.Errorf("Compile(%q).Program() = %q, want %q", pattern, got, want)
		}
		if p.String() != pattern {
			t.Errorf("Compile(%q).String() = %q", pattern, p)
		}
	}

	// Parts of each error: the cause and a hint.
	errors := map[string][]string{
		"":                                     {`command pattern ""`, "empty", "git push --force"},
		" \t":                                  {"empty", "git push --force"},
		"--force":                              {"begins with the option --force", "write the program"},
		"-rf /":                                {"begins with the option -rf", "write the program"},
		"''":                                   {"empty word", "write the program"},
		"/":                                    {"is a directory", "write the program"},
		"$x y":                                 {"is a variable", "shell: unknown"},
		"A=b rm":                               {"assignment A=b", "write the program"},
		"curl * | sh":                          {"one command", "shell: unknown"},
		"a && b":                               {"one command", "one pattern for each"},
		"a; b":                                 {"one command", "one pattern for each"},
		"a > b":                                {"without its redirections", "match the path"},
		"a $(b)":                               {"shell syntax", "quote it"},
		"a `b`":                                {"shell syntax", "quote it"},
		"git {push,fetch}":                     {"{push,fetch}", "one pattern for each"},
		"a 'b":                                 {"not closed", `\'`},
		"a b\\":                                {"ends in a backslash", `\\`},
		"sudo ''":                              {"after sudo", "empty word"},
		"a " + strings.Repeat("b ", 80):        {"81 words", "60"},
		"a -" + strings.Repeat("abcdefgh", 10): {"81 options", "60"},
	}
	for pattern, want := range errors {
		_, err := Compile(pattern)
		if err == nil {
			t.Errorf("Compile(%q) = nil error, want one that says %q", pattern, want)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("Compile(%q): %v, want it to say %q", pattern, err, w)
			}
		}
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line, program string
		want          bool
	}{
		{"git status", "rm", false},
		{"git status && ls -la | wc -l", "rm", false},
		{"rm x", "rm", true},
		{"RM x", "rm", true},
		{"alarm x", "rm", true}, // a false positive is allowed
		{"r\\m x", "rm", true},
		{"'r'm x", "rm", true},
		{`"r"m x`, "rm", true},
		{"$x", "rm", true},
		{"`x`", "rm", true},
		{"/bin/r? x", "rm", true},
		{"/bin/[q-s]m x", "rm", true},
		{"r* x", "rm", true},
		{"@(r)m x", "rm", true},
		{"{r,}m x", "rm", true},
		{"r\x00m x", "rm", true},
		{"ſudo x", "sudo", true},
		{"ls | xargs -I% % x", "rm", true},
		{"ls | parallel", "rm", true},
		{"fd -x nice", "rm", true}, // runs the found files as commands
		{"ls", "", true},
		{"", "rm", false},
	}
	for _, c := range tests {
		if got := NewGate(c.line).May(c.program); got != c.want {
			t.Errorf("NewGate(%q).May(%q) = %v, want %v", c.line, c.program, got, c.want)
		}
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"a", "a", true},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "a/b", true},
		{"a*c", "abc", true},
		{"a*c", "ac", true},
		{"a*c", "acb", false},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b", "abab", true},
		{"*a*b", "aba", false},
		{"?", "é", true},
		{"?", "", false},
		{"??", "é", false},
		{"[abc]", "b", true},
		{"[a-c]x", "bx", true},
		{"[!a-c]", "b", false},
		{"[^a-c]", "d", true},
		{"[]x]", "]", true},
		{"[a-]", "-", true},
		{"[à-ü]", "é", true},
		{"[a", "[a", true},
		{"[a", "a", false},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`a\`, `a\`, true},
		{"*****a", strings.Repeat("b", 1000), false},
	}
	for _, c := range tests {
		if got := glob(c.pattern, c.s); got != c.want {
			t.Errorf("glob(%q, %q) = %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
}

// A pattern that allows a command allows only the operands that it names.
func TestMatchWhole(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, line string
		want          Answer
	}{
		{"rm -rf dist", "rm -rf dist", Yes},
		{"rm -rf dist", "rm -rf -- dist", Yes},
		{"rm -rf dist", "rm -r dist", No},
		{"rm -rf dist", "rm -rf dist src", No},
		{"rm -rf dist", "rm -rf src dist", No},
		{"rm -rf dist", "rm -rf dist $X", No},
		{"rm -rf dist", "xargs rm -rf dist", No},
		{"rm -rf dist src", "rm -rf dist src", Yes},
		{"rm -rf dist*", "rm -rf dist1 dist2", Yes},
		{"rm -rf", "rm -rf dist", Yes},
		{"git push", "git push origin main", Yes},
		{"git push origin", "git push --tags origin", Yes},
		{"git push origin", "git push origin main", No},
		{"sudo rm -rf dist", "sudo rm -rf dist", Yes},
		{"sudo rm -rf dist", "sudo rm -rf dist /", No},
		{"mytool status", "mytool --verbose status", Yes},
		{"mytool status", "mytool status other", No},
		{"cat README.md", "cat README.md /etc/shadow", No},
		{"rm -rf dist, rm -rf build", "rm -rf dist build", Yes},
		{"rm -rf dist, rm -rf build", "rm -rf dist build src", No},
		{"rm -r dist, rm -f src", "rm -r dist src", No},
		{"rm -rf dist, sudo rm -rf build", "rm -rf dist build", No},
		{"git push origin, git pull main", "git push origin main", No},
		{"cat a, cat b c", "cat a b c", Yes},
		{"cat a, cat b c", "cat a b", No},
		{"git clean -f dist, git clean -n src", "git clean -f -n dist src", Yes},
		{"git clean -f dist, git clean -n src", "git clean -f -n --no-dry-run dist src", No},
		{"git clean -n", "git clean -n -f", Yes},
		{"git clean -n", "git clean --dry-run --no-dry-run -fd", No},
		{"git clean -n", "git clean --no-dry -nfd", No},
		{"git clean -n", "git clean -nfd --no-quiet", Yes},
		{"git clean -n", "git clean -nfd -- --no-dry-run", Yes},
		{"kubectl delete --dry-run", "kubectl delete ns x --dry-run=server", Yes},
		{"kubectl delete --dry-run", "kubectl delete ns x --dry-run=none", No},
		{"kubectl delete --dry-run", `kubectl delete ns x --dry-run="$MODE"`, No},
		{"kubectl delete --dry-run=none", "kubectl delete ns x --dry-run=none", Yes},
		{"npm publish --dry-run", "npm publish --dry-run false", No},
		{"npm publish --dry-run", "npm publish --dry-run=0", No},
		{"apt-get -s", "apt-get remove -s=no x", No},
		{"apt-get -s", "apt-get remove --no-s -s x", No},
	} {
		var patterns []*Pattern
		for source := range strings.SplitSeq(tt.pattern, ", ") {
			p, err := Compile(source)
			if err != nil {
				t.Fatal(err)
			}
			patterns = append(patterns, p)
		}
		s := Parse(tt.line)
		got := No
		for i := range s.Commands {
			got = max(got, MatchWhole(patterns, s, i))
		}
		if got != tt.want {
			t.Errorf("%q let all of %q through: %v, want %v", tt.pattern, tt.line, got, tt.want)
		}
	}
}

package shell

import "testing"

// TestMay compares the quick test with the full one: if the quick test is false, no pattern
// that begins like that matches or may match.
func TestMay(t *testing.T) {
	t.Parallel()
	patterns := []string{
		"rm -rf", "git push --force", "git push", "git * --force", "mkfs* /dev/*", "sudo rm", "/bin/rm -r", "npm install", "npm i", "kubectl delete pod", "docker compose down -v",
		"aws s3 rm", "aws * delete-*", "timeout 5 rm", "unknownprogram sub", "[ -f", "x?z a", `we\ ird a`, "cargo publish", "brew remove",
		"rm -rf *node_modules*", "rm -r src", "rm -rf ./dist/../build", "chmod -R 777 /etc", "rm -rf [a-z]uild", "head -c 100", "kubectl delete deploy web",
		"Format-Volume", "RM.EXE -r", "/usr/bin/git push", "git\tpush", "git add *.pem", "git -c http.sslVerify=false", "git -c core.hooksPath=*", "./*", "dd of=/dev/sda", "chmod a=rwx", "kubectl delete pod/a.b",
		"git commit --no-verify", "git commit -n", "npm --strict-ssl=false", "npm --no-strict-ssl", "curl --data", "tar --to-command", "unknownprogram --flag", "unknownprogram -f", "unknownprogram -flag", "unknownprogram --x",
		"git push origin --delete", "git clean -fd", "find -delete", "git -C /x commit -n", "rsync --delete-after", "rm --no-preserve-root",
	}
	lines := []string{
		"rm -rf x", "git -C a push -f", "git ./push -f", "git $x", "$x push", "g''it push --force", "mkfs.ext4 /dev/sda", "mkfs /dev/sda", "sudo -u me rm a", "/bin/rm -r a",
		"npm i x", "npm install x", "npm add x", "kubectl delete pod/x", "kubectl -n a delete pod x", "docker compose -f a down -v", "docker-compose down -v", "aws --region x s3 rm s3://a",
		"aws ec2 delete-vpc", "timeout 5 rm x", "unknownprogram sub a", "[ -f x ]", "xyz a", "xz a", "'we ird' a", "cargo +nightly publish", "brew rm x", "RM -RF x", "GIT PUSH --force",
		"echo rm -rf", "ls", "git status", "xargs rm -rf", "find . -exec git push --force \\;", `sh -c "git push -f"`, "git pu$x --force",
		"rm -rf a/node_modules/b", "rm -r ./src", "rm -rf build", "rm -rf $y", "rm -rf b*", "chmod -R 0777 /etc/", "chmod 777 -R /etc", "head -c100 x", "kubectl delete deployment web",
		"format-volume D", "rm.exe -r x", "git add a/b.pem", "git add 'b'.pem", "git -c http.sslVerify=false clone x", "git -chttp.sslVerify=false clone x", "git -c core.hooksPath=a commit", "./a", "a/b", "dd of=/dev/sda", "chmod 777 a", "chmod a=rwx b", "kubectl delete pods a.b",
		"git commit -anm x", "git commit --no-verify", "git commit --no-ver -m x", "git commit -m x --no-verify=true", "git commit $flags", "git commit -m -n", "npm --strict-ssl=false i", "npm i --no-strict-ssl",
		"curl -d a b", "curl --dat a b", "curl --data=a b", "curl -sd a b", "tar --to-c=x f", "unknownprogram --flag=1", "unknownprogram -xfz", "unknownprogram -flag", "unknownprogram --fl", "unknownprogram --x",
		"git push origin :x", "git push -d origin x", "git push --del origin x", "git clean -f -d", "git clean -xdf", "git clean --force -d", "find . -delete", "git -C /x commit -n", "rsync --delete-aft a b", "rm --no-pres -r /",
	}
	for _, pattern := range patterns {
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			s := Parse(line)
			answer, _ := p.Match(s)
			if answer != No && !near(s, p) {
				t.Errorf("%q says %v to %q, and Near says no", pattern, answer, line)
			}
			if answer != No && !s.MayMatch(pattern) {
				t.Errorf("%q says %v to %q, and MayMatch says no", pattern, answer, line)
			}
		}
	}
	for pattern, line := range map[string]string{"git push": "git status", "rm": "ls rm", "mkfs*": "ls mkfs", "npm install": "npm test", "git commit --no-verify": "git commit -am x", "npm --no-strict-ssl": "npm ci --no-audit", "git add *.pem": "git add -A"} {
		if p, err := Compile(pattern); err != nil || near(Parse(line), p) {
			t.Errorf("Near(%q) of %q says yes, which is true and useless (%v)", pattern, line, err)
		}
	}
	for pattern, line := range map[string]string{"git push --force": "git status", "rm -rf *node_modules*": "rm -rf src", "rm -rf": "ls rm"} {
		if Parse(line).MayMatch(pattern) {
			t.Errorf("MayMatch(%q) of %q says yes, which is true and useless", pattern, line)
		}
	}
}

// near reports whether an index of many lists finds the list of a pattern.
func near(s *Script, p *Pattern) bool {
	var lists [][]*Pattern
	for _, pattern := range []string{"other", "mkfile*", "git pull", "rmx", "git", "gi", "zz top", "a"} {
		q, err := Compile(pattern)
		if err != nil {
			panic(err)
		}
		lists = append(lists, []*Pattern{q})
	}
	lists = append(lists, []*Pattern{p, p})
	found := false
	all := s.Near(Begins(lists), func(list int) { found = found || list == len(lists)-1 })
	return all || found
}

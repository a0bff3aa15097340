package shell

import "testing"

// Each line runs "rm -rf ~" from a text that the line itself contains, or only mentions it.
func TestWrittenFiles(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"echo 'rm -rf ~' > a.sh; sh a.sh":                                                      true,
		"echo 'rm -rf ~' >> ./a.sh && bash -x a.sh":                                            true,
		"echo 'rm -rf ~' | tee a.sh; . ./a.sh":                                                 true,
		"echo 'rm -rf ~' | sudo tee -a a.sh; . ./a.sh":                                         true,
		"cat > run.sh <<'E'\n#!/bin/sh\nrm -rf ~\nE\nchmod +x run.sh; ./run.sh":                true,
		"cat <<E > /tmp/x\nrm -rf ~ # $USER\nE\nsource /tmp/x":                                 true,
		"cd /tmp; printf 'rm -rf %s\\n' '~' > x; cd /; nohup sh /tmp/x":                        true,
		"(cd /tmp && echo 'rm -rf ~' > x); sh < /tmp/x":                                        true,
		"printf '#!/usr/bin/env python3\\nimport os\\nos.system(\"rm -rf ~\")' > x.py; ./x.py": true,
		"echo 'import os; os.system(\"rm -rf ~\")' > x.py; python3 -u x.py":                    true,
		"printf 'all:\\n\\trm -rf ~\\n' > Makefile; make":                                      true,
		"printf 'all:\\n\\trm -rf ~\\n' > sub/Makefile; make -C sub all":                       true,
		"printf 'all:\\n\\trm -rf ~\\n' > m.mk; make -f m.mk":                                  true,
		`echo '{"scripts":{"x":"rm -rf ~"}}' > package.json; npm run x`:                        true,
		"echo '* * * * * rm -rf ~' > c; crontab c":                                             true,
		"echo 'rm -rf ~' > a; mv a b.sh; sh b.sh":                                              true,
		"echo 'rm -rf ~' > a; cp a /tmp/; sh /tmp/a":                                           true,
		"bash /dev/fd/3 3<<< 'rm -rf ~'":                                                       true,
		"echo 'sh a.sh; sh a.sh; rm -rf ~' > a.sh; sh a.sh":                                    true,
		"echo 'rm -rf $1' > a.sh; sh a.sh '~'":                                                 true,
		"echo 'rm -rf ~' > a.md; cat a.md":                                                     false,
		"echo 'rm -rf ~' > a.sh; echo ls > a.sh; sh a.sh":                                      false,
		"echo 'rm -rf ~' > a.sh; curl -o a.sh x > a.sh; sh a.sh":                               false,
		"echo 'rm -rf ~' > a.sh; sh b.sh":                                                      false,
		"cat > docs/danger.md <<'E'\nrm -rf ~\nE\nmake docs":                                   false,
		"echo 'echo never rm -rf ~' > a.sh; sh a.sh":                                           false,
	} {
		checkDeletesHome(t, line, want)
	}
}

// Each line runs "rm -rf ~" behind a program that runs commands elsewhere or in another language,
// or only mentions it.
func TestCommandsBehindPrograms(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"adb -s emulator-5554 shell rm -rf '~'":                                       true,
		"adb push rm.txt /sdcard":                                                     false,
		"gcloud compute ssh web --zone a -- rm -rf '~'":                               true,
		"gcloud compute ssh web --command='rm -rf ~'":                                 true,
		"fly ssh console -a shop -C 'rm -rf ~'":                                       true,
		"fly logs -a 'rm -rf ~'":                                                      false,
		"railway ssh rm -rf '~'":                                                      true,
		"aws ecs execute-command --cluster c --command 'rm -rf ~'":                    true,
		`aws ssm send-command --document-name d --parameters 'commands=["rm -rf ~"]'`: true,
		`aws ssm send-command --document-name d --parameters commands="rm -rf ~"`:     true,
		"az vm run-command invoke -g r --scripts 'rm -rf ~'":                          true,
		"cmake -E rm -rf '~'":                                                         true,
		"cmake --build build -j4":                                                     false,
		"npm explore left-pad -- rm -rf '~'":                                          true,
		"go build -toolexec 'rm -rf ~' ./...":                                         true,
		"go test -exec='rm -rf ~' ./...":                                              true,
		"go test -run 'rm -rf ~' ./...":                                               false,
		`cargo run --config 'target.x.runner="rm -rf ~"'`:                             true,
		`cargo run --config 'target.x.runner=["rm", "-rf", "~"]'`:                     true,
		`cargo run --config 'net.retry="rm -rf ~"'`:                                   false,
		"python -m timeit -s 'import shutil' 'shutil.rmtree(\"~\")'":                  true,
		`guile -c '(system "rm -rf ~")'`:                                              true,
		`guile -c '(begin (display "x") (system* "rm" "-rf" "~"))'`:                   true,
		`guile -c '(display "system rm -rf ~")'`:                                      false,
		`sbcl --eval '(uiop:run-program "rm -rf ~")'`:                                 true,
		`scala -e 'import sys.process._; "rm -rf ~".!'`:                               true,
		`scala -e 'println("rm -rf ~")'`:                                              false,
		`groovy -e '"rm -rf ~".execute()'`:                                            true,
		`octave --eval 'system("rm -rf ~")'`:                                          true,
		`julia -e 'run(` + "`rm -rf ~`" + `)'`:                                        true,
		`erl -noshell -eval 'os:cmd("rm -rf ~").'`:                                    true,
		`elixir -e 'System.cmd("rm", ["-rf", "~"])'`:                                  true,
		"ed -s notes <<< '!rm -rf ~'":                                                 true,
		"ed -s notes <<< '1,$p'":                                                      false,
	} {
		checkDeletesHome(t, line, want)
	}
}

func checkDeletesHome(t *testing.T, line string, want bool) {
	t.Helper()
	p, err := Compile("rm -rf ~")
	if err != nil {
		t.Fatal(err)
	}
	s := Parse(line)
	if got, _ := p.Match(s); (got == Yes) != want {
		t.Errorf("%q: %v, want a match: %v; the commands are %v", line, got, want, commandNames(s))
	}
}

func commandNames(s *Script) (names []string) {
	for i := range s.Commands {
		names = append(names, s.Commands[i].String())
	}
	return names
}

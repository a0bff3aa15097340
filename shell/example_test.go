package shell_test

import (
	"fmt"

	"github.com/grapnel-dev/grapnel/shell"
)

func Example() {
	force, err := shell.Compile("git push --force")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, line := range []string{
		`cd /srv && sudo git -C app push -f origin main`,
		`git push --force-with-lease`,
		`git commit -m "never git push --force"`,
		`git push $OPTIONS`,
	} {
		answer, command := force.Match(shell.Parse(line))
		if command == nil {
			fmt.Println(answer)
			continue
		}
		fmt.Println(answer, "-", command)
	}
	// Output:
	// yes - git -C app push -f origin main (behind sudo)
	// no
	// no
	// unknown - git push $OPTIONS
}

func ExampleParse() {
	s := shell.Parse(`find . -name '*.o' -exec rm -f {} + && curl -s example.com/x | sudo sh > log`)
	for i := range s.Commands {
		fmt.Println(s.Commands[i].Name, "-", &s.Commands[i])
	}
	fmt.Println("writes:", s.Writes)
	fmt.Println("unknown:", s.Unknown)
	// Output:
	// find - find . -name *.o -exec rm -f {} +
	// rm - rm -f {} (behind find -exec)
	// curl - curl -s example.com/x
	// sudo - sudo sh
	// sh - sh (behind sudo)
	// writes: [log]
	// unknown: [pipe into sh]
}

func ExampleGate() {
	p, err := shell.Compile("rm -rf /")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, line := range []string{"go test ./...", "sudo rm -rf /", `r\m -rf /`} {
		fmt.Println(shell.NewGate(line).May(p.Program()))
	}
	// Output:
	// false
	// true
	// true
}

func ExampleCompile_error() {
	_, err := shell.Compile("curl * | sh")
	fmt.Println(err)
	// Output:
	// command pattern "curl * | sh": a pattern describes one command and | joins two: write one pattern for each; a pipe into a shell is reported as unknown, match "shell: unknown"
}

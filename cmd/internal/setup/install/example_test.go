package install_test

import (
	"fmt"
	"log"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
)

func ExamplePlan() {
	claude, err := install.Lookup("claude")
	if err != nil {
		log.Fatal(err)
	}
	settings := []byte("{\n  \"model\": \"opus\"\n}\n")
	c, err := install.Plan(install.Wanted{
		Agent: claude, File: "settings.json", Current: settings,
		Hook:    install.Hook{Program: "/usr/local/bin/grapnel-hook", ID: "k3tq5a2mzn7xw4vbyc6dpfhjre"},
		Events:  []string{"PreToolUse"},
		Timeout: install.DefaultTimeout,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(c.Diff)
	back, err := install.PlanRemove(claude, "settings.json", c.After, &c.Made)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("taken out again:", string(back.After) == string(settings))
	// Output:
	// --- settings.json
	// +++ settings.json
	// @@ -1,3 +1,16 @@
	//  {
	// -  "model": "opus"
	// +  "model": "opus",
	// +  "hooks": {
	// +    "PreToolUse": [
	// +      {
	// +        "hooks": [
	// +          {
	// +            "type": "command",
	// +            "command": "/usr/local/bin/grapnel-hook --id k3tq5a2mzn7xw4vbyc6dpfhjre",
	// +            "timeout": 3600
	// +          }
	// +        ]
	// +      }
	// +    ]
	// +  }
	//  }
	// taken out again: true
}

func ExampleFileError() {
	gemini, err := install.Lookup("gemini")
	if err != nil {
		log.Fatal(err)
	}
	_, err = install.Plan(install.Wanted{
		Agent: gemini, File: "settings.json", Current: []byte("{\n  \"hooks\": [] // none yet\n}\n"),
		Hook:    install.Hook{Program: "/usr/local/bin/grapnel-hook", ID: "k3tq5a2mzn7xw4vbyc6dpfhjre"},
		Events:  []string{"BeforeTool"},
		Timeout: time.Minute,
	})
	fmt.Println(err)
	// Output:
	// settings.json:2:12: "hooks" is not an object {...}; repair the file, then run the command again
}

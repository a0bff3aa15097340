// Package bridge has one folder for each framework whose agents fire events of Grapnel.
//
//	adk/ eino/ genkit/  frameworks for agents in Go
//	mcp/                a server or a client of the Model Context Protocol
//	agenthooks/         the Agent Hooks Specification, for agents on package host
//
// All but agenthooks are modules of their own, so that users load only the framework that they have. A
// bridge translates between the framework and package host, and has no rules. Start in the file with the
// name of the folder. This package is not an API; it has no code.
package bridge

package outbound

import "fmt"

// A Fault is a category of errors in a webhook's configuration or delivery.
type Fault string

// Errors in the configuration of a webhook, in the order of the checks.
const (
	BadURL          Fault = "bad_url"           // it cannot be parsed, or parsers disagree about it
	BadScheme       Fault = "bad_scheme"        // the scheme is not https
	UserInfo        Fault = "userinfo"          // it contains a user name or a password
	NoHost          Fault = "no_host"           // it has no host
	AmbiguousHost   Fault = "ambiguous_host"    // a number that is not a canonical IP address
	ForbiddenIP     Fault = "forbidden_ip"      // an address that is not public
	ForbiddenHost   Fault = "forbidden_host"    // a name for a local host or network
	ForbiddenPort   Fault = "forbidden_port"    // the port of another protocol
	BadHeader       Fault = "bad_header"        // invalid in HTTP, too long, too many or duplicate
	ForbiddenHeader Fault = "forbidden_header"  // reserved for Grapnel, or a security risk
	BadTimeout      Fault = "bad_timeout"       // not between 0 and MaxTimeout
	BadMaxInFlight  Fault = "bad_max_in_flight" // less than one
	BadBody         Fault = "bad_body"          // the format is unknown, or does not support the event
	BadSecret       Fault = "bad_secret"        // Hook and Post only: not a signature key
)

// Errors of a delivery, in addition to ForbiddenIP and BadBody.
const (
	DNSError       Fault = "dns_error"        // no address found, or not in time
	DNSForbiddenIP Fault = "dns_forbidden_ip" // one of the addresses is not public
	Unreachable    Fault = "unreachable"      // no connection, or the connection broke
	TLS            Fault = "tls"              // the server's certificate could not be verified
	Timeout        Fault = "timeout"          // the time limit was exceeded
	Redirect       Fault = "redirect"         // the response is a redirect, which is not followed
	Refused        Fault = "refused"          // the response status is not a success
	Rejected       Fault = "rejected"         // Hook and Post only: the status refers to this request, not to the state of the server
	BadAnswer      Fault = "bad_answer"       // Hook and Post only: the response is invalid
	TooLarge       Fault = "too_large"        // Hook only: the response exceeds the size limit
	CircuitOpen    Fault = "circuit_open"     // Hook only: the server failed too often, so requests are paused
	Dropped        Fault = "dropped"          // too many running deliveries, or the client is closed
)

// An Error describes a problem of a webhook or of a delivery. It contains only the host of the
// URL and the names of headers, because the rest may be secret.
type Error struct {
	Fault    Fault
	Repaired Fault // for BadURL: the error of the URL as browsers repair it; empty = no error, or browsers cannot repair it
	err      error
}

// Error returns the message.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

func fault(f Fault, format string, args ...any) error {
	return &Error{Fault: f, err: fmt.Errorf(format, args...)}
}

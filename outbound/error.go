package outbound

import "fmt"

// A Fault is a kind of what can be wrong with a webhook or with a delivery.
type Fault string

// What can be wrong with a webhook, in the order in which it is looked for.
const (
	BadURL          Fault = "bad_url"           // it cannot be read, or not by everybody in the same way
	BadScheme       Fault = "bad_scheme"        // it is not https
	UserInfo        Fault = "userinfo"          // it holds a user name or a password
	NoHost          Fault = "no_host"           // it names nobody
	AmbiguousHost   Fault = "ambiguous_host"    // a number that is not written as an address
	ForbiddenIP     Fault = "forbidden_ip"      // an address that is not public
	ForbiddenHost   Fault = "forbidden_host"    // a name that stands for something nearby
	ForbiddenPort   Fault = "forbidden_port"    // the port of another protocol
	BadHeader       Fault = "bad_header"        // not valid in HTTP, too much of it, or there twice
	ForbiddenHeader Fault = "forbidden_header"  // ours to set, or a key to what should stay shut
	BadTimeout      Fault = "bad_timeout"       // not between 0 and MaxTimeout
	BadMaxInFlight  Fault = "bad_max_in_flight" // less than one
	BadBody         Fault = "bad_body"          // the body's language is unknown, or has no word for the event
	BadSecret       Fault = "bad_secret"        // of a hook: no key of a signature
)

// Why a delivery can fail, beside ForbiddenIP and BadBody.
const (
	DNSError       Fault = "dns_error"        // no address was found, or not in time
	DNSForbiddenIP Fault = "dns_forbidden_ip" // an address that was found is not public
	Unreachable    Fault = "unreachable"      // no connection, or it broke
	TLS            Fault = "tls"              // whoever answered could not show who they are
	Timeout        Fault = "timeout"          // the time was over
	Redirect       Fault = "redirect"         // the answer points elsewhere, and nobody goes there
	Refused        Fault = "refused"          // the answer is a status that is no success
	Rejected       Fault = "rejected"         // to a hook: a status that is about this request, and not about the server
	BadAnswer      Fault = "bad_answer"       // to a hook: it cannot be read
	TooLarge       Fault = "too_large"        // to a hook: there is more of the answer than is read
	CircuitOpen    Fault = "circuit_open"     // of a hook: the server failed too often, and is not asked for a while
	Dropped        Fault = "dropped"          // too many deliveries are under way, or the client is closed
)

// An Error says what is wrong with a webhook or with a delivery. Of the URL it names
// the host, of a header the name: the rest may be a secret.
type Error struct {
	Fault    Fault
	Repaired Fault // of a BadURL: what is wrong with it as browsers repair it; empty = nothing, or they cannot either
	err      error
}

// Error says what is wrong in words.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

func fault(f Fault, format string, args ...any) error {
	return &Error{Fault: f, err: fmt.Errorf(format, args...)}
}

// Package deliver tells webhooks of events until they have heard.
package deliver

package main

import "errors"

func ask(string, []byte) ([]byte, error) {
	return nil, errors.New("unix sockets are not supported here")
}

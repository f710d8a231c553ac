// A server as one writes it with Go's standard library: encoding/json binds members whatever their case, the last of two
// counts, and bad UTF-8 is replaced; what may be compressed is unpacked, and a proxy's word about method and path is taken.
package main

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

type arguments struct {
	To     string  `json:"to"`
	Amount float64 `json:"amount"`
}

type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method"`
	Params struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"params"`
}

var lock sync.Mutex

func note(seen any) {
	lock.Lock()
	defer lock.Unlock()
	file, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	line, _ := json.Marshal(seen)
	file.Write(append(line, '\n'))
}

func unpacked(request *http.Request) ([]byte, error) {
	var body io.Reader = request.Body
	var err error
	switch request.Header.Get("Content-Encoding") {
	case "gzip":
		body, err = gzip.NewReader(body)
	case "deflate":
		body, err = zlib.NewReader(body)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(body)
}

func answer(one message) any {
	if one.Method == "tools/call" {
		note(map[string]any{"name": one.Params.Name, "arguments": one.Params.Arguments})
		content := []map[string]string{{"type": "text", "text": "done"}}
		return map[string]any{"jsonrpc": "2.0", "id": one.ID, "result": map[string]any{"content": content}}
	}
	return map[string]any{"jsonrpc": "2.0", "id": one.ID, "result": map[string]any{}}
}

func serve(response http.ResponseWriter, request *http.Request) {
	method := request.Method
	if override := request.Header.Get("X-HTTP-Method-Override"); override != "" {
		method = override
	}
	note(map[string]string{"arrived": request.Method})
	if method != http.MethodPost {
		response.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	text, err := unpacked(request)
	if err != nil {
		http.Error(response, "bad body", http.StatusBadRequest)
		return
	}
	var told any
	var batch []message
	var one message
	decoder := json.NewDecoder(bytes.NewReader(text)) // reads the first value, and leaves what follows
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '[' {
		err = decoder.Decode(&batch)
		answers := []any{}
		for _, each := range batch {
			answers = append(answers, answer(each))
		}
		told = answers
	} else if err = decoder.Decode(&one); err == nil {
		told = answer(one)
	}
	if err != nil {
		http.Error(response, "bad JSON", http.StatusBadRequest)
		return
	}
	if one.ID == nil && batch == nil {
		response.WriteHeader(http.StatusAccepted)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	json.NewEncoder(response).Encode(told)
}

func main() {
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("listening %d\n", listening.Addr().(*net.TCPAddr).Port)
	http.Serve(listening, http.HandlerFunc(serve))
}

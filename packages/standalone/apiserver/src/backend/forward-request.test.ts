// SPDX-License-Identifier: Apache-2.0
// Headers that are passed on, and those that end here.
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { forwardedHeaders, responseHeaders } from "./forward-request.ts";

test.each<{ name: string; headers: IncomingHttpHeaders; want: IncomingHttpHeaders }>([
  {
    name: "end-to-end headers are forwarded",
    headers: { accept: "a", te2: "b" },
    want: { accept: "a", te2: "b" },
  },
  {
    name: "hop-by-hop headers are dropped",
    headers: {
      connection: "keep-alive",
      "keep-alive": "1",
      "proxy-authorization": "a",
      te: "trailers",
      trailer: "x",
      upgrade: "x",
      expect: "100-continue",
      "http2-settings": "x",
    },
    want: {},
  },
  {
    name: "headers listed in Connection are dropped",
    headers: { connection: " X-One ,x-two", "x-one": "1", "x-two": "2", "x-three": "3" },
    want: { "x-three": "3" },
  },
  {
    name: "credentials and users are not",
    headers: {
      authorization: "a",
      host: "b",
      "impersonate-user": "c",
      "impersonate-extra-a": "d",
      "x-remote-user": "e",
      "x-remote-uid": "f",
      "x-remote-group": "g",
      "x-remote-extra-a": "h",
      "x-forwarded-uri": "i",
    },
    want: {},
  },
  {
    name: "headers that only resemble user headers are forwarded",
    headers: { "x-authorization": "a", "x-remote-users": "b", "my-proxy-a": "c", "x-remote": "d" },
    want: { "x-authorization": "a", "x-remote-users": "b", "my-proxy-a": "c", "x-remote": "d" },
  },
  {
    name: "a body of unknown length remains chunked",
    headers: { "transfer-encoding": "gzip, chunked" },
    want: { "transfer-encoding": "chunked" },
  },
])("$name", ({ headers, want }) => {
  // Only its headers are read.
  const request = { headers } as IncomingMessage;
  expect(forwardedHeaders(request, "there:1")).toEqual({ ...want, host: "there:1" });
});

test.each<{ headers: IncomingHttpHeaders; want: IncomingHttpHeaders }>([
  { headers: { trailer: "x-sum", te: "a", "x-a": "1" }, want: { trailer: "x-sum", "x-a": "1" } },
  { headers: { connection: "x-a", "x-a": "1", authorization: "b" }, want: { authorization: "b" } },
])("a response with $headers is returned with $want", ({ headers, want }) => {
  expect(responseHeaders(headers)).toEqual(want);
});

// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { guestStreamPath, parseGuestStream } from "./streams.ts";

const KEY = { namespace: "ns", name: "vm" };

test.each([
  { stream: "console", preservesSession: false },
  { stream: "vnc", preservesSession: true },
  { stream: "vnc", preservesSession: true, isBeside: true },
] as const)("$stream is asked for by a path that says so: $preservesSession", (request) => {
  expect(parseGuestStream(guestStreamPath(KEY, request))).toEqual({ key: KEY, ...request });
});

test("a console is nobody's beside another", () => {
  const request = { stream: "console", preservesSession: false, isBeside: true } as const;
  expect(parseGuestStream(guestStreamPath(KEY, request))?.isBeside).toBeUndefined();
});

test.each([
  "",
  "/v1/namespaces/ns/virtualmachineinstances/vm/pause",
  "/v1/namespaces/ns/virtualmachineinstances/vm/console/more",
  "/v1/namespaces/ns/virtualmachines/vm/console",
])("%j asks for none", (path) => {
  expect(parseGuestStream(path)).toBeUndefined();
});

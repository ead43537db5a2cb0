// SPDX-License-Identifier: Apache-2.0
// Whom does the front proxy bring?
import { Socket } from "node:net";
import { expect, test } from "vitest";
import { ClientAuthority } from "@patchbay/daemon";
import { findRemoteUser } from "./front-proxy.ts";

/** An authority that vouches for everybody, or for nobody. */
function vouching(isKnown: boolean): ClientAuthority {
  const authority = new ClientAuthority({
    read: () => Promise.resolve({ caPem: "", names: [] }),
    follow: () => undefined,
  });
  return Object.assign(authority, { vouchesFor: () => isKnown });
}

const ALICE = { "x-remote-user": ["alice"], "x-remote-group": ["a", "b"] };

test.each<{ name: string; headers: Record<string, string[]>; known?: boolean; want: unknown }>([
  {
    name: "a user and their groups",
    headers: ALICE,
    known: true,
    want: { name: "alice", groups: ["a", "b"] },
  },
  {
    name: "a user without groups",
    headers: { "x-remote-user": ["alice"] },
    known: true,
    want: { name: "alice", groups: [] },
  },
  {
    name: "a user with what their token says",
    headers: {
      "x-remote-user": ["agent"],
      "x-remote-extra-authentication.kubernetes.io%2fpod-name": ["pod"],
      "x-remote-extra-%zz": ["unreadable"],
    },
    known: true,
    want: {
      name: "agent",
      groups: [],
      extra: { "authentication.kubernetes.io/pod-name": ["pod"] },
    },
  },
  { name: "nobody, where none is named", headers: {}, known: true, want: undefined },
  { name: "nobody, where somebody else says so", headers: ALICE, known: false, want: undefined },
  { name: "nobody, where there is no front proxy", headers: ALICE, want: undefined },
])("$name", ({ headers, known, want }) => {
  const frontProxy = known === undefined ? undefined : vouching(known);
  const request = { socket: new Socket(), headersDistinct: headers };
  expect(findRemoteUser(frontProxy, request)).toEqual(want);
});

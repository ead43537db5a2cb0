// SPDX-License-Identifier: Apache-2.0
// What does an aggregated server get to know of a user?
import { expect, test } from "vitest";
import { userHeaders } from "./front-proxy-headers.ts";

test.each([
  {
    name: "name and groups",
    user: { name: "ann", groups: ["a", "b"] },
    want: { "X-Remote-User": "ann", "X-Remote-Group": ["a", "b"] },
  },
  {
    name: "uid, and nothing for no groups",
    user: { name: "ann", groups: [], uid: "u" },
    want: { "X-Remote-User": "ann", "X-Remote-Uid": "u" },
  },
  {
    name: "keys that no header can have, escaped",
    user: { name: "ann", groups: [], extra: { "acme.com/a%b": ["1", "2"] } },
    want: { "X-Remote-User": "ann", "X-Remote-Extra-acme.com%2Fa%25b": ["1", "2"] },
  },
  {
    name: "names beyond ASCII as UTF-8 bytes",
    user: { name: "jürgen", groups: [] },
    want: { "X-Remote-User": "j\u00c3\u00bcrgen" },
  },
])("user headers: $name", ({ user, want }) => {
  expect(userHeaders(user)).toEqual(want);
});

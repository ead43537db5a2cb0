// SPDX-License-Identifier: Apache-2.0
// What does an aggregated server get to know of a user?
import { expect, test } from "vitest";
import { startControllerTest } from "../testing/test-controllers.ts";
import { writeAuthenticationConfig, userHeaders } from "./front-proxy.ts";

test.each([
  {
    name: "name and groups",
    user: { name: "ann", groups: ["a", "b"] },
    want: { "X-Remote-User": "ann", "X-Remote-Group": ["a", "b"] },
  },
  {
    name: "a uid, and no group header without groups",
    user: { name: "ann", groups: [], uid: "u" },
    want: { "X-Remote-User": "ann", "X-Remote-Uid": "u" },
  },
  {
    name: "extra keys with escaped characters",
    user: { name: "ann", groups: [], extra: { "acme.com/a%b": ["1", "2"] } },
    want: { "X-Remote-User": "ann", "X-Remote-Extra-acme.com%2Fa%25b": ["1", "2"] },
  },
  {
    name: "non-ASCII names as UTF-8 bytes",
    user: { name: "jürgen", groups: [] },
    want: { "X-Remote-User": "j\u00c3\u00bcrgen" },
  },
])("user headers: $name", ({ user, want }) => {
  expect(userHeaders(user)).toEqual(want);
});

const NAME = "extension-apiserver-authentication";
const TRUST = { clientCaPem: "CLIENTS", frontProxyCaPem: "PROXIES", frontProxyName: "proxy" };
const DATA = {
  "client-ca-file": "CLIENTS",
  "requestheader-allowed-names": '["proxy"]',
  "requestheader-client-ca-file": "PROXIES",
  "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
  "requestheader-group-headers": '["X-Remote-Group"]',
  "requestheader-uid-headers": '["X-Remote-Uid"]',
  "requestheader-username-headers": '["X-Remote-User"]',
};

test("writes the settings for aggregated servers once, and again on changes", async () => {
  await using given = await startControllerTest();
  const { server } = given;
  const read = () => server.stored("configmaps", NAME, "kube-system");
  await writeAuthenticationConfig(server.deps, TRUST);
  expect(read()).toMatchObject({ kind: "ConfigMap", metadata: { name: NAME }, data: DATA });
  const first = read()?.metadata;
  await writeAuthenticationConfig(server.deps, TRUST);
  expect(read()?.metadata).toEqual(first);
  await writeAuthenticationConfig(server.deps, { ...TRUST, frontProxyName: "other" });
  expect(read()).toMatchObject({
    metadata: { uid: first?.uid },
    data: { ...DATA, "requestheader-allowed-names": '["other"]' },
  });
});

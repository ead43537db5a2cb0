// SPDX-License-Identifier: Apache-2.0
// Signing of relay certificates for agents.
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { names } from "@patchbay/api";
import { createFakeStore } from "@patchbay/kube/testing";
import { createFakeClock } from "@patchbay/os/testing";
import { createAuthority, isMatchingKey, readCertificateSubject } from "@patchbay/pki";
import { expect, test } from "vitest";
import type { User } from "../http/calls.ts";
import type { Deps } from "../deps.ts";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { relayCertificate } from "./relay-certificate.ts";

const AGENT = "system:serviceaccount:patchbay:virt-handler";
const POD = {
  "authentication.kubernetes.io/pod-name": ["virt-handler-x"],
  "authentication.kubernetes.io/pod-uid": ["u1"],
};
const NODE = "authentication.kubernetes.io/node-name";

const authority = await createAuthority("own", createFakeClock());

function keysOn(namedCurve: string) {
  return generateKeyPairSync("ec", {
    namedCurve,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
}
const KEYS = keysOn("P-256");

function ask(
  user: User,
  body: unknown = { publicKey: KEYS.publicKey },
  others: Partial<Deps> = {},
) {
  const deps = depsOn(createFakeStore(), {
    relayAuthority: () => Promise.resolve({ authority, bundlePem: "all" }),
    findPodNode: ({ name, uid }) =>
      Promise.resolve(name === "virt-handler-x" && uid === "u1" ? "node-of-pod" : undefined),
    ...others,
  });
  return relayCertificate(deps)(aCall({ user, body }));
}

test.each([
  { name: "its token names", extra: { ...POD, [NODE]: ["node-1"] }, groups: [], want: "node-1" },
  { name: "its token's pod is on", extra: POD, groups: [], want: "node-of-pod" },
  { name: "its certificate names", groups: ["patchbay.io:node:node-3"], want: "node-3" },
])("signs the agent's key for the node that $name", async ({ want, ...user }) => {
  const body = { publicKey: KEYS.publicKey, node: "other", commonName: "other" };
  const answer = await ask({ ...user, name: AGENT }, body);
  expect(answer).toMatchObject({ code: 200, body: { authorities: "all" } });
  const { certificate } = answer.body as { readonly certificate: string };
  expect(readCertificateSubject(certificate)).toEqual({
    commonName: want,
    organizations: [names.RELAY_GROUP],
  });
  expect(isMatchingKey(certificate, KEYS.privateKey)).toBe(true);
  const { publicKey } = new X509Certificate(authority.certPem);
  expect(new X509Certificate(certificate).verify(publicKey)).toBe(true);
});

test.each<{ name: string; user: User; says: string }>([
  {
    name: "another component of that node",
    user: {
      name: "system:serviceaccount:patchbay:net-agent",
      groups: ["patchbay.io:node:node-1"],
      extra: { [NODE]: ["node-1"] },
    },
    says: "is not an agent of a node",
  },
  {
    name: "the account of a launcher, in whose pod the token is",
    user: { name: "system:serviceaccount:ns:default", groups: [], extra: { [NODE]: ["node-1"] } },
    says: "is not an agent of a node",
  },
  {
    name: "an agent of no node",
    user: { name: AGENT, groups: [] },
    says: "has no token that names its node",
  },
  {
    name: "an agent of two nodes",
    user: { name: AGENT, groups: [], extra: { [NODE]: ["node-1", "node-2"] } },
    says: "has no token that names its node",
  },
  {
    name: "an agent with a deleted pod",
    user: {
      name: AGENT,
      groups: [],
      extra: { ...POD, "authentication.kubernetes.io/pod-uid": ["other"] },
    },
    says: "has no token that names its node",
  },
  {
    name: "an agent of a node that is called as virt-api is to virt-handlers",
    user: { name: AGENT, groups: [], extra: { [NODE]: ["virt-api"] } },
    says: "has a name that is reserved for another component",
  },
])("rejects $name", async ({ user, says }) => {
  expect(await ask(user)).toMatchObject({
    code: 403,
    body: { message: expect.stringContaining(says) as string },
  });
});

test.each([
  { name: "a missing body", body: undefined },
  { name: "a missing key", body: {} },
  { name: "words", body: { publicKey: "words" } },
  { name: "a key on another curve", body: { publicKey: keysOn("P-384").publicKey } },
])("signs nothing for $name", async ({ body }) => {
  const user = { name: AGENT, groups: ["patchbay.io:node:node-1"] };
  expect(await ask(user, body ?? null)).toMatchObject({ code: 400 });
});

test("reports that it does not manage the certificates", async () => {
  const user = { name: AGENT, groups: ["patchbay.io:node:node-1"] };
  const others = { relayAuthority: () => Promise.resolve(undefined) };
  expect(await ask(user, { publicKey: KEYS.publicKey }, others)).toMatchObject({ code: 503 });
});

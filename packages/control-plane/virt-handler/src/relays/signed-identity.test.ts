// SPDX-License-Identifier: Apache-2.0
// Certificates that virt-api signs for this node.
import { names } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import type { KubeClient } from "@patchbay/kube";
import { createFakeClock } from "@patchbay/os/testing";
import { certifyKey, createAuthority, isMatchingKey } from "@patchbay/pki";
import { expect, test } from "vitest";
import { identityFromVirtApi } from "./node-identity.ts";

const authority = await createAuthority("own", createFakeClock());

/** A virt-api that knows the requesting node. */
function virtApiOf(node: string, answerWith: (certificate: string) => object) {
  const asked: unknown[] = [];
  const requestRaw: KubeClient["requestRaw"] = async ({ method, path, body }) => {
    asked.push(`${method} ${path}`);
    const key = isJsonObject(body) ? String(body["publicKey"]) : "";
    const certificate = await certifyKey(authority, key, {
      commonName: node,
      organizations: [names.RELAY_GROUP],
      dnsNames: [],
      ipAddresses: [],
      usages: ["server", "client"],
      validDays: 2,
    });
    return { status: 200, text: JSON.stringify(answerWith(certificate)), warnings: [] };
  };
  return { asked, read: identityFromVirtApi({ requestRaw }, "node-1") };
}

const whole = (certificate: string): object => ({ certificate, authorities: authority.certPem });

test("generates and signs a new key each time", async () => {
  const { asked, read } = virtApiOf("node-1", whole);
  const [first, second] = [await read(), await read()];
  expect(asked).toEqual(Array(2).fill("PUT /apis/subresources.kubevirt.io/v1/relaycertificate"));
  expect(first.authorityPem).toBe(authority.certPem);
  expect(isMatchingKey(first.certPem, first.keyPem)).toBe(true);
  expect(second.keyPem).not.toBe(first.keyPem);
});

test.each([
  {
    name: "a certificate of another node",
    node: "node-2",
    answer: whole,
    says: "does not name node node-1",
  },
  { name: "none", node: "node-1", answer: () => ({}), says: "returned no certificate" },
])("rejects $name", async ({ node, answer, says }) => {
  await expect(virtApiOf(node, answer).read()).rejects.toThrow(says);
});

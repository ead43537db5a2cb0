// SPDX-License-Identifier: Apache-2.0
// Somebody who is not the administrator: a client certificate of the machine's authority, and kubectl with it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClock } from "@patchbay/os";
import { issueCertificate, kubeconfigText, loadAuthority } from "@patchbay/pki";
import type { CommandResult } from "@patchbay/support";
import { machine } from "../machine.ts";

/** A user of the machine. */
export interface Person {
  readonly name: string;
  /** Does not throw. */
  kubectl(...args: readonly string[]): CommandResult;
  /** Whether the object would be made; it is not. */
  tryCreate(object: unknown): CommandResult;
  /** A subresource request: PUT with a body. */
  put(path: string, body: unknown): CommandResult;
}

function readPki(name: string): string {
  return readFileSync(join(machine.dataDir, "pki", name), "utf8");
}

function serverUrl(): string {
  const args = ["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"];
  return machine.kubectl(...args).trim();
}

/** A person who may do nothing as yet. */
export async function createPerson(name: string): Promise<Person> {
  const pems = { certPem: readPki("ca.crt"), keyPem: readPki("ca.key") };
  const authority = loadAuthority(pems, createClock());
  const issued = await issueCertificate(authority, {
    commonName: name,
    organizations: [],
    dnsNames: [],
    ipAddresses: [],
    usages: ["client"],
    validDays: 1,
  });
  const file = join(machine.dataDir, `${name}.kubeconfig`);
  const content = { server: serverUrl(), caPem: authority.certPem, ...issued, user: name };
  writeFileSync(file, kubeconfigText(content), { mode: 0o600 });
  const kubectl = (args: readonly string[], input?: string): CommandResult =>
    machine.try(["kubectl", "--kubeconfig", file, ...args], input);
  return {
    name,
    kubectl: (...args) => kubectl(args),
    tryCreate: (object) =>
      kubectl(["create", "--dry-run=server", "-f", "-"], JSON.stringify(object)),
    put: (path, body) => kubectl(["replace", "--raw", path, "-f", "-"], JSON.stringify(body)),
  };
}

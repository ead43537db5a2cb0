// SPDX-License-Identifier: Apache-2.0
// An unprivileged user: a client certificate of the machine's authority, with kubectl.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClock } from "@patchbay/os";
import { issueCertificate, kubeconfigText, loadAuthority } from "@patchbay/pki";
import type { CommandResult } from "@patchbay/support";
import { machine } from "../machine.ts";

export interface Person {
  readonly name: string;
  kubectl(...args: readonly string[]): CommandResult;
  /** Whether the object would be created, by a dry run. */
  tryCreate(object: unknown): CommandResult;
  put(path: string, body: unknown): CommandResult;
}

function readPki(name: string): string {
  return readFileSync(join(machine.dataDir, "pki", name), "utf8");
}

function serverUrl(): string {
  const args = ["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"];
  return machine.kubectl(...args).trim();
}

/** A user without rights. */
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

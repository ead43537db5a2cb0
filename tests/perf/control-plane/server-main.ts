// SPDX-License-Identifier: Apache-2.0
// The embedded API server in its own process, with objects of a cluster's size: each has managedFields. `node
// server-main.ts DIRECTORY` writes `kubeconfig` there and prints `ready`.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startApiServer } from "@patchbay/apiserver";
import { FIELD_MANAGERS } from "@patchbay/apiserver/testing";
import { createClock } from "@patchbay/os";
import { type Authority, createAuthority, issueCertificate, kubeconfigText } from "@patchbay/pki";
import { createLogger } from "@patchbay/telemetry";

const VALID_DAYS = 1;
const clock = createClock();
const [directory = "."] = process.argv.slice(2);

function issue(
  authority: Authority,
  commonName: string,
  organizations: readonly string[] = [],
): ReturnType<typeof issueCertificate> {
  const usages = ["server", "client"] as const;
  const ipAddresses = ["127.0.0.1"];
  const names = { commonName, organizations, dnsNames: [], ipAddresses };
  return issueCertificate(authority, { ...names, usages, validDays: VALID_DAYS });
}

const authority = await createAuthority("perf", clock);
const frontProxyCa = await createAuthority("perf-front-proxy", clock);
const server = await startApiServer({
  storePath: join(directory, "store.db"),
  host: "127.0.0.1",
  port: 0,
  tls: await issue(authority, "apiserver"),
  clientCaPem: authority.certPem,
  frontProxy: await issue(frontProxyCa, "front-proxy-client"),
  frontProxyCaPem: frontProxyCa.certPem,
  tokens: [],
  logger: createLogger({ component: "apiserver", level: "warn" }),
  clock,
  extensions: FIELD_MANAGERS,
});
const admin = await issue(authority, "kubernetes-admin", ["system:masters"]);
const { certPem, keyPem } = admin;
writeFileSync(
  join(directory, "kubeconfig"),
  kubeconfigText({ server: server.url, caPem: authority.certPem, certPem, keyPem, user: "admin" }),
  { mode: 0o600 },
);
process.stdout.write(`ready ${server.url}\n`);
process.once("SIGTERM", () => void server.close());

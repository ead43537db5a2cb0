// SPDX-License-Identifier: Apache-2.0
// Who is who on a standalone machine: authorities, certificates and kubeconfigs, made once and renewed in time.
import { join } from "node:path";
import { names } from "@patchbay/api";
import {
  createAuthority,
  createSigningKey,
  endOfCertificate,
  kubeconfigText,
  loadAuthority,
  renewAuthority,
  startOfCertificate,
  type Authority,
  type IssuedCertificate,
} from "@patchbay/pki";
import { HANDLER_CLIENT_NAME, HANDLER_SERVER_NAME } from "@patchbay/core";
import { readFields, textOf } from "./json.ts";
import {
  keepCertificate,
  KEY_MODE,
  RENEW_BEFORE_MS,
  VALID_DAYS,
  type CertificateDeps,
} from "./kept-certificate.ts";
import type { Paths } from "./paths.ts";

const DAY_MS = 24 * 3_600_000;
/** An authority that ends sooner would cut the certificates short that it signs. */
const RENEW_AUTHORITY_BEFORE_MS = VALID_DAYS * DAY_MS + RENEW_BEFORE_MS;

/** Common name of what the API server shows to aggregated servers; they believe whom it names. */
export const FRONT_PROXY_CLIENT = "front-proxy-client";
/** Common name of what it shows to webhooks. Of the same authority, for another use: the names tell them apart. */
export const WEBHOOK_CLIENT = "webhook-client";

/** Common name of what it shows to the node. Source: kubeadm. */
export const KUBELET_CLIENT = "kube-apiserver-kubelet-client";

/** Name of the files of what the node shows to the API server. */
export const NODE_SERVER = "node-runtime";

/** Names of the files of what virt-handler shows to virt-api, and of what it is shown. */
export const HANDLER_SERVER = "virt-handler";
export const HANDLER_CLIENT = "virt-api-client";

/** Programs that have an account of their own. */
const SERVICES = [
  "virt-api",
  "virt-controller",
  "virt-handler",
  "net-agent",
  "binder",
  "service-net",
] as const;

/** The one whose writes are bound to its node: a group of its account names it. */
const NODE_SERVICE = "virt-handler";

/** What the API server is started with. */
export interface Certificates {
  readonly ca: Authority;
  readonly apiServer: IssuedCertificate;
  readonly frontProxyClient: IssuedCertificate;
  /** What is shown to webhooks. */
  readonly webhookClient: IssuedCertificate;
  /** What is shown to the node. */
  readonly kubeletClient: IssuedCertificate;
  /** Signs tokens of service accounts, PEM. Secret. */
  readonly tokenKeyPem: string;
  readonly frontProxyCa: Authority;
}

async function keepAuthority(deps: CertificateDeps, name: string): Promise<Authority> {
  const { files, clock, paths } = deps;
  const certFile = join(paths.pki, `${name}.crt`);
  const keyFile = join(paths.pki, `${name}.key`);
  const certPem = await files.readText(certFile);
  const keyPem = await files.readText(keyFile);
  if (certPem === undefined || keyPem === undefined) {
    const authority = await createAuthority(`patchbay-${name}`, clock);
    await files.writeAtomic(keyFile, authority.keyPem, KEY_MODE);
    await files.writeAtomic(certFile, authority.certPem);
    return authority;
  }
  const kept = loadAuthority({ certPem, keyPem }, clock);
  if (endOfCertificate(certPem) - clock.now() > RENEW_AUTHORITY_BEFORE_MS) return kept;
  const renewed = await renewAuthority(kept);
  await files.writeAtomic(certFile, renewed.certPem);
  return renewed;
}

/** Since when the newest certificate holds, milliseconds since 1970: what was started before does not know it. */
export async function newestCertificateMs({ files, paths }: CertificateDeps): Promise<number> {
  const found = (await files.list(paths.pki)).filter((name) => name.endsWith(".crt"));
  const texts = await Promise.all(found.map((name) => files.readText(join(paths.pki, name))));
  return Math.max(0, ...texts.map((text) => (text === undefined ? 0 : startOfCertificate(text))));
}

/** A key that is never replaced: tokens that it signed are to stay good. */
async function keepSigningKey({ files, paths }: CertificateDeps, name: string): Promise<string> {
  const file = join(paths.pki, `${name}.key`);
  const kept = await files.readText(file);
  if (kept !== undefined) return kept;
  const keyPem = await createSigningKey();
  await files.writeAtomic(file, keyPem, KEY_MODE);
  return keyPem;
}

/** Makes what the API server needs, where it is missing or ends soon. */
export async function keepServerCertificates(deps: CertificateDeps): Promise<Certificates> {
  const apiAddress = textOf(await readFields(deps.files, deps.paths.settings), "apiAddress");
  const ipAddresses = ["127.0.0.1", ...(apiAddress === "" ? [] : [apiAddress])];
  const ca = await keepAuthority(deps, "ca");
  const frontProxyCa = await keepAuthority(deps, "front-proxy-ca");
  const dnsNames = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
  return {
    ca,
    frontProxyCa,
    apiServer: await keepCertificate(deps, ca, {
      name: "apiserver",
      request: { commonName: "kube-apiserver", dnsNames, ipAddresses, usages: ["server"] },
    }),
    frontProxyClient: await keepCertificate(deps, frontProxyCa, {
      name: FRONT_PROXY_CLIENT,
      request: { commonName: FRONT_PROXY_CLIENT, usages: ["client"] },
    }),
    webhookClient: await keepCertificate(deps, frontProxyCa, {
      name: WEBHOOK_CLIENT,
      request: { commonName: WEBHOOK_CLIENT, usages: ["client"] },
    }),
    kubeletClient: await keepCertificate(deps, ca, {
      name: KUBELET_CLIENT,
      request: { commonName: KUBELET_CLIENT, usages: ["client"] },
    }),
    tokenKeyPem: await keepSigningKey(deps, "service-account"),
  };
}

interface Account {
  /** Name of the files. */
  readonly name: string;
  readonly user: string;
  readonly groups: readonly string[];
}

const ADMINISTRATOR: Account = {
  name: "admin",
  user: "kubernetes-admin",
  groups: ["system:masters"],
};

function accountsOf(nodeName: string): readonly Account[] {
  const services = SERVICES.map((name) => ({
    name,
    user: `${names.SERVICE_ACCOUNT_PREFIX}${name}`,
    groups: [
      "system:serviceaccounts",
      `system:serviceaccounts:${names.SERVICES_NAMESPACE}`,
      ...(name === NODE_SERVICE ? [`${names.NODE_GROUP_PREFIX}${nodeName}`] : []),
    ],
  }));
  const node = { name: "node-runtime", user: `system:node:${nodeName}`, groups: ["system:nodes"] };
  return [...services, node];
}

async function keepKubeconfig(
  deps: CertificateDeps,
  ca: Authority,
  wanted: { readonly account: Account; readonly file: string; readonly server: string },
): Promise<void> {
  const { account, file, server } = wanted;
  const { certPem, keyPem } = await keepCertificate(deps, ca, {
    name: `client-${account.name}`,
    request: { commonName: account.user, organizations: account.groups, usages: ["client"] },
  });
  const user = account.user;
  const text = kubeconfigText({ server, caPem: ca.certPem, certPem, keyPem, user });
  if (text !== (await deps.files.readText(file))) {
    await deps.files.writeAtomic(file, text, KEY_MODE);
  }
}

/** Writes the administrator's kubeconfig, where it is missing or says something else. */
export async function keepAdminKubeconfig(
  deps: CertificateDeps,
  ca: Authority,
  server: string,
): Promise<void> {
  const file = deps.paths.kubeconfig;
  await keepKubeconfig(deps, ca, { account: ADMINISTRATOR, file, server });
}

/** The kubeconfig of a component. */
export function kubeconfigOf(paths: Paths, component: string): string {
  return join(paths.kubeconfigs, `${component}.kubeconfig`);
}

/** Makes certificates and kubeconfigs of all components, where they are missing or end soon. */
export async function keepComponentCertificates(
  deps: CertificateDeps,
  ca: Authority,
  machine: { readonly server: string; readonly nodeName: string },
): Promise<void> {
  for (const account of accountsOf(machine.nodeName)) {
    const file = kubeconfigOf(deps.paths, account.name);
    await keepKubeconfig(deps, ca, { account, file, server: machine.server });
  }
  // As which the API server knows it: the address is the machine's, and may change.
  await keepCertificate(deps, ca, {
    name: NODE_SERVER,
    request: {
      commonName: `system:node:${machine.nodeName}`,
      dnsNames: [machine.nodeName],
      usages: ["server"],
    },
  });
  await keepCertificate(deps, ca, {
    name: "virt-api",
    request: {
      commonName: "virt-api",
      dnsNames: [
        `virt-api.${names.SERVICES_NAMESPACE}.svc`,
        `virt-api.${names.SERVICES_NAMESPACE}`,
        "localhost",
      ],
      usages: ["server"],
    },
  });
  await keepHandlerCertificates(deps, ca);
  await keepRelayCertificate(deps, ca, machine.nodeName);
}

/** The two sides of the way from virt-api to guests. */
async function keepHandlerCertificates(deps: CertificateDeps, ca: Authority): Promise<void> {
  await keepCertificate(deps, ca, {
    name: HANDLER_SERVER,
    request: {
      commonName: HANDLER_SERVER_NAME,
      dnsNames: [HANDLER_SERVER_NAME],
      usages: ["server"],
    },
  });
  await keepCertificate(deps, ca, {
    name: HANDLER_CLIENT,
    request: { commonName: HANDLER_CLIENT_NAME, usages: ["client"] },
  });
}

/** What this node shows to another one when a guest moves, and whom it believes: read anew at each move. */
async function keepRelayCertificate(
  deps: CertificateDeps,
  ca: Authority,
  nodeName: string,
): Promise<void> {
  const { files, paths } = deps;
  const caFile = join(paths.relayPki, "ca.crt");
  if ((await files.readText(caFile)) !== ca.certPem) await files.writeAtomic(caFile, ca.certPem);
  await keepCertificate(deps, ca, {
    directory: paths.relayPki,
    name: "tls",
    request: {
      commonName: nodeName,
      organizations: [names.RELAY_GROUP],
      // One end listens, the other connects, and each shows who it is.
      usages: ["server", "client"],
      ipAddresses: [],
    },
  });
}

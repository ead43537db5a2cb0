// SPDX-License-Identifier: Apache-2.0
// Creates the authorities, certificates and kubeconfigs of a standalone machine, and renews them before they expire.
import { join } from "node:path";
import {
  readCertificateEnd,
  issueCertificate,
  isIssuedForAddress,
  readCertificateSubject,
  type Authority,
  type CertificateRequest,
  type IssuedCertificate,
  createAuthority,
  createSigningKey,
  kubeconfigText,
  loadAuthority,
  renewAuthority,
  readCertificateStart,
} from "@patchbay/pki";
import type { Clock } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import type { Paths } from "./paths.ts";
import { names } from "@patchbay/api";
import { HANDLER_CLIENT_NAME, HANDLER_SERVER_NAME } from "@patchbay/core/guest";
import { readFields, readText } from "./json.ts";

const KEY_MODE = 0o600;
const VALID_DAYS = 365;
/** Remaining validity below which a certificate is renewed, in milliseconds. */
const RENEW_BEFORE_MS = 60 * 24 * 3_600_000;

interface CertificateDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly paths: Paths;
}

type SubjectRequest = Pick<CertificateRequest, "commonName" | "usages"> &
  Partial<Pick<CertificateRequest, "organizations" | "dnsNames" | "ipAddresses">>;

/** Returns whether a certificate remains valid long enough and has the requested subject and IP addresses. */
function matchesRequest(certPem: string, clock: Clock, spec: SubjectRequest): boolean {
  const { commonName, organizations } = readCertificateSubject(certPem);
  const groups = new Set(spec.organizations);
  return (
    readCertificateEnd(certPem) - clock.now() > RENEW_BEFORE_MS &&
    commonName === spec.commonName &&
    organizations.length === groups.size &&
    organizations.every((group) => groups.has(group)) &&
    (spec.ipAddresses ?? []).every((ip) => isIssuedForAddress(certPem, ip))
  );
}

interface CertificateSpec {
  readonly name: string;
  readonly directory?: string;
  readonly request: SubjectRequest;
}

async function ensureCertificate(
  deps: CertificateDeps,
  authority: Authority,
  spec: CertificateSpec,
): Promise<IssuedCertificate> {
  const { files, clock, paths } = deps;
  const directory = spec.directory ?? paths.pki;
  const certFile = join(directory, `${spec.name}.crt`);
  const keyFile = join(directory, `${spec.name}.key`);
  const certPem = await files.readText(certFile);
  const keyPem = await files.readText(keyFile);
  const exists = certPem !== undefined && keyPem !== undefined;
  if (exists && matchesRequest(certPem, clock, spec.request)) return { certPem, keyPem };
  const isServer = spec.request.usages.includes("server");
  const issued = await issueCertificate(authority, {
    organizations: [],
    dnsNames: [],
    ipAddresses: isServer ? ["127.0.0.1"] : [],
    validDays: VALID_DAYS,
    ...spec.request,
  });
  await files.writeAtomic(keyFile, issued.keyPem, KEY_MODE);
  await files.writeAtomic(certFile, issued.certPem);
  return issued;
}

const DAY_MS = 24 * 3_600_000;
/** Remaining validity below which an authority is renewed. It is so long that every certificate expires before its authority. */
const RENEW_AUTHORITY_BEFORE_MS = VALID_DAYS * DAY_MS + RENEW_BEFORE_MS;

/** Name of the client certificate that aggregated servers require before they trust the user names in the API server's headers. */
export const FRONT_PROXY_CLIENT = "front-proxy-client";
/** Name of the API server's client certificate for webhooks. The front-proxy authority issues this certificate. */
export const WEBHOOK_CLIENT = "webhook-client";

/** Name of the API server's client certificate for kubelets. Source: kubeadm. */
export const KUBELET_CLIENT = "kube-apiserver-kubelet-client";

export const NODE_SERVER = "node-runtime";

export const HANDLER_SERVER = "virt-handler";
export const HANDLER_CLIENT = "virt-api-client";

const SERVICES = [
  "virt-api",
  "virt-controller",
  "virt-handler",
  "net-agent",
  "binder",
  "service-net",
] as const;

/** Service whose certificate also contains a group with the node's name. virt-api identifies the node by this group. */
const NODE_SERVICE = "virt-handler";

export interface Certificates {
  readonly ca: Authority;
  readonly apiServer: IssuedCertificate;
  readonly frontProxyClient: IssuedCertificate;
  readonly webhookClient: IssuedCertificate;
  readonly kubeletClient: IssuedCertificate;
  readonly tokenKeyPem: string;
  readonly frontProxyCa: Authority;
}

async function ensureAuthority(deps: CertificateDeps, name: string): Promise<Authority> {
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
  const existing = loadAuthority({ certPem, keyPem }, clock);
  if (readCertificateEnd(certPem) - clock.now() > RENEW_AUTHORITY_BEFORE_MS) return existing;
  const renewed = await renewAuthority(existing);
  await files.writeAtomic(certFile, renewed.certPem);
  return renewed;
}

/** Returns the start of the newest certificate's validity. Processes that started before this time have not loaded the certificate. */
export async function readNewestValidityStartMs({
  files,
  paths,
}: CertificateDeps): Promise<number> {
  const certFiles = (await files.list(paths.pki)).filter((name) => name.endsWith(".crt"));
  const texts = await Promise.all(certFiles.map((name) => files.readText(join(paths.pki, name))));
  return Math.max(0, ...texts.map((text) => (text === undefined ? 0 : readCertificateStart(text))));
}

/** Creates the key if it is missing. An existing key is not replaced, so that existing tokens remain valid. */
async function ensureSigningKey({ files, paths }: CertificateDeps, name: string): Promise<string> {
  const file = join(paths.pki, `${name}.key`);
  const existing = await files.readText(file);
  if (existing !== undefined) return existing;
  const keyPem = await createSigningKey();
  await files.writeAtomic(file, keyPem, KEY_MODE);
  return keyPem;
}

export async function ensureServerCertificates(deps: CertificateDeps): Promise<Certificates> {
  const apiAddress = readText(await readFields(deps.files, deps.paths.settings), "apiAddress");
  const ipAddresses = ["127.0.0.1", ...(apiAddress === "" ? [] : [apiAddress])];
  const ca = await ensureAuthority(deps, "ca");
  const frontProxyCa = await ensureAuthority(deps, "front-proxy-ca");
  const dnsNames = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
  return {
    ca,
    frontProxyCa,
    apiServer: await ensureCertificate(deps, ca, {
      name: "apiserver",
      request: { commonName: "kube-apiserver", dnsNames, ipAddresses, usages: ["server"] },
    }),
    frontProxyClient: await ensureCertificate(deps, frontProxyCa, {
      name: FRONT_PROXY_CLIENT,
      request: { commonName: FRONT_PROXY_CLIENT, usages: ["client"] },
    }),
    webhookClient: await ensureCertificate(deps, frontProxyCa, {
      name: WEBHOOK_CLIENT,
      request: { commonName: WEBHOOK_CLIENT, usages: ["client"] },
    }),
    kubeletClient: await ensureCertificate(deps, ca, {
      name: KUBELET_CLIENT,
      request: { commonName: KUBELET_CLIENT, usages: ["client"] },
    }),
    tokenKeyPem: await ensureSigningKey(deps, "service-account"),
  };
}

interface Account {
  readonly name: string;
  readonly user: string;
  readonly groups: readonly string[];
}

const ADMINISTRATOR: Account = {
  name: "admin",
  user: "kubernetes-admin",
  groups: ["system:masters"],
};

function listAccounts(nodeName: string): readonly Account[] {
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

async function ensureKubeconfig(
  deps: CertificateDeps,
  ca: Authority,
  spec: { readonly account: Account; readonly file: string; readonly server: string },
): Promise<void> {
  const { account, file, server } = spec;
  const { certPem, keyPem } = await ensureCertificate(deps, ca, {
    name: `client-${account.name}`,
    request: { commonName: account.user, organizations: account.groups, usages: ["client"] },
  });
  const user = account.user;
  const text = kubeconfigText({ server, caPem: ca.certPem, certPem, keyPem, user });
  if (text !== (await deps.files.readText(file))) {
    await deps.files.writeAtomic(file, text, KEY_MODE);
  }
}

export async function ensureAdminKubeconfig(
  deps: CertificateDeps,
  ca: Authority,
  server: string,
): Promise<void> {
  const file = deps.paths.kubeconfig;
  await ensureKubeconfig(deps, ca, { account: ADMINISTRATOR, file, server });
}

export function buildKubeconfigPath(paths: Paths, component: string): string {
  return join(paths.kubeconfigs, `${component}.kubeconfig`);
}

/** Creates missing certificates and kubeconfigs of components, and renews those that expire soon. */
export async function ensureComponentCertificates(
  deps: CertificateDeps,
  ca: Authority,
  machine: { readonly server: string; readonly nodeName: string },
): Promise<void> {
  for (const account of listAccounts(machine.nodeName)) {
    const file = buildKubeconfigPath(deps.paths, account.name);
    await ensureKubeconfig(deps, ca, { account, file, server: machine.server });
  }
  // The certificate contains the node's name instead of its address, because the address may change.
  await ensureCertificate(deps, ca, {
    name: NODE_SERVER,
    request: {
      commonName: `system:node:${machine.nodeName}`,
      dnsNames: [machine.nodeName],
      usages: ["server"],
    },
  });
  await ensureCertificate(deps, ca, {
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
  await ensureHandlerCertificates(deps, ca);
  await ensureRelayCertificate(deps, ca, machine.nodeName);
}

async function ensureHandlerCertificates(deps: CertificateDeps, ca: Authority): Promise<void> {
  await ensureCertificate(deps, ca, {
    name: HANDLER_SERVER,
    request: {
      commonName: HANDLER_SERVER_NAME,
      dnsNames: [HANDLER_SERVER_NAME],
      usages: ["server"],
    },
  });
  await ensureCertificate(deps, ca, {
    name: HANDLER_CLIENT,
    request: { commonName: HANDLER_CLIENT_NAME, usages: ["client"] },
  });
}

/** Creates the CA file and the certificate of migration relays. virt-handler reads both for each migration. */
async function ensureRelayCertificate(
  deps: CertificateDeps,
  ca: Authority,
  nodeName: string,
): Promise<void> {
  const { files, paths } = deps;
  const caFile = join(paths.relayPki, "ca.crt");
  if ((await files.readText(caFile)) !== ca.certPem) await files.writeAtomic(caFile, ca.certPem);
  await ensureCertificate(deps, ca, {
    directory: paths.relayPki,
    name: "tls",
    request: {
      commonName: nodeName,
      organizations: [names.RELAY_GROUP],
      // During a migration, a relay is the server on one node and the client on the other node.
      usages: ["server", "client"],
      ipAddresses: [],
    },
  });
}

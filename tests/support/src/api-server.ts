// SPDX-License-Identifier: Apache-2.0
// An in-memory API server with Patchbay's kinds and roles, and clients of it, for tests of whole components.
import { customResourceDefinitions, type ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { startApiServer } from "@patchbay/apiserver";
import { createKubeClient, type KubeClient, type KubeConfig } from "@patchbay/kube";
import { applyManifests, parseManifests, readManifests } from "@patchbay/manifests";
import { createClock, createFiles } from "@patchbay/os";
import {
  type Authority,
  createAuthority,
  issueCertificate,
  kubeconfigText,
  type IssuedCertificate,
} from "@patchbay/pki";
import type { Clock, Logger } from "@patchbay/base";
import { createSilentLogger, type ApiRequest } from "@patchbay/telemetry";

export const CUSTOM_RESOURCE_DEFINITIONS: ResourceType<KubeObject> = {
  group: "apiextensions.k8s.io",
  version: "v1",
  resource: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  namespaced: false,
};

/** An in-memory server. */
export interface TestServer {
  readonly clock: Clock;
  readonly log: Logger;
  /** A client of `user` with the manifests' rights; closed with the server. */
  client(
    user: string,
    groups?: readonly string[],
    onRequest?: (request: ApiRequest) => void,
  ): Promise<KubeClient>;
  /** A kubeconfig of `user` for another program. */
  kubeconfig(user: string, groups?: readonly string[]): Promise<string>;
  close(): Promise<void>;
}

interface User {
  readonly name: string;
  readonly groups: readonly string[];
}

function identify(authority: Authority, { name, groups }: User): Promise<IssuedCertificate> {
  return issueCertificate(authority, {
    commonName: name,
    organizations: groups,
    dnsNames: [],
    ipAddresses: [],
    usages: ["client"],
    validDays: 1,
  });
}

async function configFor(authority: Authority, server: string, user: User): Promise<KubeConfig> {
  const issued = await identify(authority, user);
  const credentials = { ca: authority.certPem, cert: issued.certPem, key: issued.keyPem };
  return {
    server,
    skipTlsVerify: false,
    readCredentials: () => Promise.resolve(credentials),
  };
}

async function serve(
  authority: Authority,
  clock: Clock,
  log: Logger,
): ReturnType<typeof startApiServer> {
  const issue = (name: string): ReturnType<typeof issueCertificate> =>
    issueCertificate(authority, {
      commonName: name,
      organizations: [],
      dnsNames: ["localhost"],
      ipAddresses: ["127.0.0.1"],
      usages: ["server", "client"],
      validDays: 1,
    });
  return startApiServer({
    storePath: ":memory:",
    host: "127.0.0.1",
    port: 0,
    tls: await issue("apiserver"),
    clientCaPem: authority.certPem,
    frontProxy: await issue("front-proxy"),
    frontProxyCaPem: authority.certPem,
    tokens: [],
    logger: log,
    clock,
  });
}

/** Whether the object is part of RBAC. */
function grants({ apiVersion, kind }: KubeObject): boolean {
  return apiVersion.startsWith("rbac.") || kind === "Namespace" || kind === "ServiceAccount";
}

let granted: Promise<readonly KubeObject[]> | undefined;

/** A cluster's roles, parsed once: parsing YAML per server took 5 of 67 core-seconds of the unit tests. */
function readGrants(): Promise<readonly KubeObject[]> {
  granted ??= readManifests(createFiles(), "base").then((manifests) =>
    parseManifests(manifests).filter(grants),
  );
  return granted;
}

/** Starts a server on a free port of loopback, with the CRDs, the namespace `patchbay` and the roles of a cluster. */
export async function startTestServer(): Promise<TestServer> {
  const clock = createClock();
  const log = createSilentLogger();
  const authority = await createAuthority("test", clock);
  const server = await serve(authority, clock, log);
  const clients: KubeClient[] = [];
  const client: TestServer["client"] = async (name, groups = [], onRequest) => {
    const config = await configFor(authority, server.url, { name, groups });
    const counting = onRequest === undefined ? {} : { onRequest };
    const made = createKubeClient(config, { logger: log, clock, ...counting });
    clients.push(made);
    return made;
  };
  const { store } = await client("kubernetes-admin", ["system:masters"]);
  for (const definition of customResourceDefinitions()) {
    await store.create(CUSTOM_RESOURCE_DEFINITIONS, definition);
  }
  await applyManifests(store, await readGrants());
  return {
    clock,
    log,
    client,
    kubeconfig: async (name, groups = []) => {
      const { certPem, keyPem } = await identify(authority, { name, groups });
      const { url } = server;
      return kubeconfigText({ server: url, caPem: authority.certPem, certPem, keyPem, user: name });
    },
    close: async () => {
      await Promise.all(clients.map((made) => made.close()));
      await server.close();
    },
  };
}

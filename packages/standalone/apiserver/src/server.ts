// SPDX-License-Identifier: Apache-2.0
import { X509Certificate, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { type Server, createServer } from "node:https";
import { type Server as NetServer, type Socket, createServer as createNetServer } from "node:net";
import {
  AppError,
  HANDSHAKE_TIMEOUT_MS,
  limitHandshakes,
  limitPipelining,
  messageOf,
  KeyedMutex,
  type Clock,
  type Logger,
} from "@patchbay/base";

import { withBuiltInAdmission } from "./admission/built-in-admission.ts";
import { makeWebhookAdmission } from "./admission/webhook/webhook-admission.ts";
import { findApiServiceByPath } from "./aggregation/api-services.ts";
import { writeAuthenticationConfig } from "./aggregation/front-proxy.ts";
import { startAvailability } from "./aggregation/availability.ts";
import { startLocalApiServices } from "./aggregation/local-api-services.ts";
import { makeAggregator } from "./aggregation/proxy.ts";
import { RemoteDiscovery } from "./aggregation/remote-discovery.ts";
import { Connections } from "./backend/connections.ts";
import { serveUpgrades } from "./backend/tunnel.ts";
import {
  createStandardNamespaces,
  ensureNamespaceContents,
  startNamespaceContents,
} from "./controllers/namespace-contents.ts";
import {
  aggregateClusterRoles,
  startClusterRoleAggregation,
} from "./controllers/cluster-role-aggregation.ts";
import { ensureDefaultRoles } from "./controllers/default-roles.ts";
import { startTokenSecrets } from "./controllers/token-secrets.ts";
import {
  startDefinitionCleanup,
  startDefinitionNames,
} from "./controllers/custom-resource-definitions.ts";
import { startDisruptionBudgets, startQuotaStatus } from "./controllers/computed-status.ts";
import { startNodeLifecycle } from "./controllers/node-lifecycle.ts";
import { startGarbageCollector } from "./controllers/garbage-collector.ts";
import { startNamespaceLifecycle } from "./controllers/namespace-lifecycle.ts";
import { startStorageProtection } from "./controllers/storage-protection.ts";
import { type AppDeps, makeApp } from "./http/app.ts";
import { isPodStream } from "./kubelet/connect.ts";
import { makeAccess } from "./auth/access.ts";
import type { TokenEntry } from "./auth/authentication.ts";
import type { ServerExtensions } from "./extensions.ts";
import { Registry } from "./kinds/registry.ts";
import { type Limits, LIMITS, UserQuotas } from "./limits/limits.ts";
import { FairQueue } from "./limits/fair-queue.ts";
import { ResourceQuotas } from "./limits/resource-quotas.ts";
import { openStore } from "./storage/sqlite-store.ts";
import type { Store } from "./storage/store.ts";
import { DEFAULT_WATCH_BEHAVIOR } from "./verbs/watch/watch-behavior.ts";

export interface KeyPair {
  readonly certPem: string;
  readonly keyPem: string;
}

export interface ApiServerOptions {
  /** Path of the database in an existing directory, or `:memory:`. */
  readonly storePath: string;
  readonly host: string;
  /** Additional address to listen on, with the same port. */
  readonly secondHost?: string;
  /** Port to listen on; 0 selects a free port. */
  readonly port: number;
  readonly tls: KeyPair;
  /** CA of `tls` and of client certificates, as PEM. */
  readonly clientCaPem: string;
  readonly frontProxy: KeyPair;
  /** CA of `frontProxy`, as PEM. It is published for extension API servers. */
  readonly frontProxyCaPem: string;
  readonly webhookClient?: KeyPair;
  /** Certificate that this server presents to kubelets. The CA in `clientCaPem` must have issued the kubelets' own certificates. */
  readonly kubeletClient?: KeyPair;
  readonly tokens: readonly TokenEntry[];
  /** Private P-256 key for signing tokens, as PKCS #8 PEM. If it is unset, tokens become invalid when the server stops. */
  readonly tokenKeyPem?: string;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Returns metrics in the Prometheus text format. Unset if the server does not serve `/metrics`. */
  readonly readMetrics?: () => Promise<string>;
  /** Service network in CIDR notation; 10.96.0.0/16 by default. */
  readonly serviceNetwork?: string;
  readonly extensions?: ServerExtensions;
  readonly limits?: Partial<Limits>;
}

export interface RunningApiServer {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

/** Maximum size of request headers. It is below the 1 MiB of Kubernetes, because no quota limits the memory for headers. */
const HEADERS_MAX_BYTES = 32 * 1024;

const DEFAULT_SERVICE_NETWORK = "10.96.0.0/16";

const CONNECTION_CHECK_INTERVAL_MS = 2000;

/** Characters of the random suffix of generated names. Source: Kubernetes util/rand. */
const SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH = 5;

function randomSuffix(): string {
  return [...randomBytes(SUFFIX_LENGTH)]
    .map((byte) => SUFFIX_ALPHABET[byte % SUFFIX_ALPHABET.length])
    .join("");
}

type ServerDeps = AppDeps & { readonly connections: Connections; readonly rootCaPem: string };

function randomFraction(): number {
  return randomBytes(4).readUInt32BE() / 2 ** 32;
}

function makeDeps(options: ApiServerOptions, store: Store, stop: AbortSignal): ServerDeps {
  const registry = new Registry(store);
  const limits = { ...LIMITS, ...options.limits };
  const webhooks = new Connections(options.webhookClient);
  const extensionConnections = new Connections(options.frontProxy);
  const kubeletConnections = new Connections(options.kubeletClient);
  stop.addEventListener("abort", () => {
    for (const connections of [webhooks, extensionConnections, kubeletConnections]) {
      connections.close();
    }
  });
  const access = makeAccess(options, store);
  const admission = makeWebhookAdmission({
    store,
    registry,
    connections: webhooks,
    uid: randomUUID,
    logger: options.logger,
  });
  const builtInAdmission = withBuiltInAdmission(
    { store, clock: options.clock, random: { suffix: randomSuffix }, ...access },
    admission,
  );
  const { extensions = {} } = options;
  return {
    ...access,
    store,
    registry,
    admission:
      extensions.wrapAdmission?.(builtInAdmission, { ...access, registry }) ?? builtInAdmission,
    watchBehavior: extensions.makeWatchBehavior?.(store.revision()) ?? DEFAULT_WATCH_BEHAVIOR,
    clock: options.clock,
    logger: options.logger,
    mutex: new KeyedMutex(),
    fairQueue: new FairQueue({ clock: options.clock, stop }),
    quotas: new UserQuotas(limits, { clock: options.clock, stop }),
    resourceQuotas: new ResourceQuotas(store),
    limits,
    serviceNetwork: options.serviceNetwork ?? DEFAULT_SERVICE_NETWORK,
    ...(options.readMetrics !== undefined && { readMetrics: options.readMetrics }),
    random: { uid: randomUUID, suffix: randomSuffix, fraction: randomFraction },
    stop,
    remote: new RemoteDiscovery(store),
    aggregator: makeAggregator({ store, connections: extensionConnections, stop }),
    kubelets: { connections: kubeletConnections, caPem: options.clientCaPem },
    connections: extensionConnections,
    rootCaPem: options.clientCaPem,
  };
}

function startControllers(deps: ServerDeps, stop: AbortSignal): void {
  startGarbageCollector(deps, stop);
  startNamespaceLifecycle(deps, stop);
  startStorageProtection(deps, stop);
  startDefinitionCleanup(deps, stop);
  startDefinitionNames(deps, stop);
  startClusterRoleAggregation(deps, stop);
  startNamespaceContents(deps, stop);
  startTokenSecrets(deps, stop);
  startAvailability(deps, stop);
  startNodeLifecycle(deps, stop);
  startDisruptionBudgets(deps, stop);
  startQuotaStatus(deps, stop);
}

function parseCommonName(certPem: string): string {
  return /^CN=(.*)$/m.exec(new X509Certificate(certPem).subject)?.[1] ?? "";
}

function tlsServer(options: ApiServerOptions, deps: AppDeps): Server {
  const app = makeApp(deps);
  const { limits, quotas } = deps;
  const server = createServer(
    {
      cert: options.tls.certPem,
      key: options.tls.keyPem,
      ca: options.clientCaPem,
      requestCert: true,
      rejectUnauthorized: false,
      keepAliveTimeout: 120_000,
      handshakeTimeout: Math.min(limits.headersMs, HANDSHAKE_TIMEOUT_MS),
      // These timeouts apply to requests, not to responses such as watches.
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(limits.headersMs, CONNECTION_CHECK_INTERVAL_MS),
      maxHeaderSize: HEADERS_MAX_BYTES,
      shouldUpgradeCallback: ({ url = "" }) =>
        isPodStream(url) || findApiServiceByPath(deps.store, url) !== undefined,
    },
    app,
  );
  limitHandshakes(server, limits.handshakes, deps);
  limitPipelining(server);
  server.on("connection", (socket: Socket) => {
    quotas.addUnauthenticated(socket);
  });
  serveUpgrades(server, app);
  return server;
}

function makeServer(options: ApiServerOptions, deps: AppDeps): Server {
  try {
    return tlsServer(options, deps);
  } catch (error) {
    throw new AppError("APISERVER_TLS_INVALID", { reason: messageOf(error) }, { cause: error });
  }
}

async function createBuiltInObjects(
  options: ApiServerOptions,
  deps: ServerDeps,
  stop: AbortSignal,
): Promise<void> {
  await createStandardNamespaces(deps);
  await ensureDefaultRoles(deps);
  await aggregateClusterRoles(deps);
  await ensureNamespaceContents(deps);
  await writeAuthenticationConfig(deps, {
    clientCaPem: options.clientCaPem,
    frontProxyCaPem: options.frontProxyCaPem,
    frontProxyName: parseCommonName(options.frontProxy.certPem),
  });
  await startLocalApiServices(deps, stop);
}

interface Listening {
  readonly port: number;
  readonly close: () => void;
}

async function listenAt(server: NetServer, host: string, port: number): Promise<number> {
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (error) {
    throw new AppError(
      "APISERVER_LISTEN_FAILED",
      { host, port, reason: messageOf(error) },
      { cause: error },
    );
  }
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : port;
}

async function listen(server: Server, options: ApiServerOptions): Promise<Listening> {
  const port = await listenAt(server, options.host, options.port);
  if (options.secondHost === undefined) return { port, close: () => undefined };
  const secondServer = createNetServer((socket) => server.emit("connection", socket));
  try {
    await listenAt(secondServer, options.secondHost, port);
  } catch (error) {
    server.close();
    throw error;
  }
  return { port, close: () => secondServer.close() };
}

async function closeServer(server: Server): Promise<void> {
  // Waits for two turns of the event loop, so that watches can write their last events before the connections are closed.
  for (let attempt = 0; attempt < 2; attempt += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  const closeEvent = once(server, "close");
  server.close();
  server.closeIdleConnections();
  server.closeAllConnections();
  await closeEvent;
}

/** Starts the server. @throws AppError with STORE_UNUSABLE, APISERVER_LISTEN_FAILED or APISERVER_TLS_INVALID */
export async function startApiServer(options: ApiServerOptions): Promise<RunningApiServer> {
  const store = openStore(options.storePath, (error) => {
    options.logger.error("a store listener failed", { err: messageOf(error) });
  });
  const stopController = new AbortController();
  try {
    const deps = makeDeps(options, store, stopController.signal);
    await createBuiltInObjects(options, deps, stopController.signal);
    startControllers(deps, stopController.signal);
    const server = makeServer(options, deps);
    const { port, close } = await listen(server, options);
    return {
      url: `https://${options.host}:${String(port)}`,
      port,
      close: async () => {
        stopController.abort();
        close();
        await closeServer(server);
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

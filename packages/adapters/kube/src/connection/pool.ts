// SPDX-License-Identifier: Apache-2.0
// Connection pool and authentication headers of one API server. After certificates rotate, a new pool replaces the old one.
import type { Clock } from "@patchbay/base";
import { Agent, ProxyAgent, type Dispatcher } from "undici";
import type { Credentials, KubeConfig } from "./kubeconfig.ts";

/** Maximum age of credentials, in milliseconds, before they are read again. Source: client-go rest/token_source.go */
const CREDENTIALS_TTL_MS = 60_000;
/** Maximum number of connections. Each watch occupies one connection. */
const CONNECTIONS_MAX = 128;
/**
 * Milliseconds until the client closes an idle connection, unless the server announces another time. Below the 90 s of
 * kube-apiserver, so that the client closes first. Source: Kubernetes apiserver secure_serving.go, IdleTimeout
 */
const KEEP_ALIVE_MS = 85_000;
/**
 * Time limit for TCP connection and TLS handshake together, in milliseconds. An overloaded machine needed more than 5 s.
 * Source: client-go and net/http, TLSHandshakeTimeout of 10 s
 */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Idle time before the kernel probes a connection, in milliseconds. After ten failed probes in 10 s, the kernel closes the connection.
 * Source: client-go, keep-alive of 30 s
 */
const KEEP_ALIVE_PROBE_MS = 30_000;

export interface Transport {
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string>>;
}

function createDispatcher(config: KubeConfig, credentials: Credentials): Dispatcher {
  const { ca, cert, key } = credentials;
  const tls = {
    ca,
    cert,
    key,
    servername: config.tlsServerName,
    rejectUnauthorized: !config.skipTlsVerify,
    timeout: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_PROBE_MS,
  };
  const pool = {
    connections: CONNECTIONS_MAX,
    keepAliveTimeout: KEEP_ALIVE_MS,
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  return config.proxyUrl === undefined
    ? new Agent({ ...pool, connect: tls })
    : new ProxyAgent({ ...pool, uri: config.proxyUrl, requestTls: tls });
}

export function authHeaders(config: KubeConfig, credentials: Credentials): Record<string, string> {
  const { token, username, password } = credentials;
  const headers: Record<string, string> = {};
  if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
  else if (username !== undefined) {
    const basicCredentials = Buffer.from(`${username}:${password ?? ""}`).toString("base64");
    headers["authorization"] = `Basic ${basicCredentials}`;
  }
  if (config.impersonate !== undefined) headers["impersonate-user"] = config.impersonate;
  return headers;
}

export class ConnectionPool {
  readonly #config: KubeConfig;
  readonly #clock: Clock;
  #readAtMs = 0;
  #fingerprint = "";
  #transport: Promise<Transport> | undefined;
  /** Last created transport, which is used while credentials cannot be read. */
  #lastTransport: Transport | undefined;
  #isRefused = false;
  #dispatcher: Dispatcher | undefined;

  constructor(config: KubeConfig, clock: Clock) {
    this.#config = config;
    this.#clock = clock;
  }

  transport(): Promise<Transport> {
    const nowMs = this.#clock.monotonicMs();
    const isFresh = nowMs - this.#readAtMs < CREDENTIALS_TTL_MS;
    if (this.#transport !== undefined && isFresh) return this.#transport;
    this.#readAtMs = nowMs;
    const transport = this.#readOrReuse();
    this.#transport = transport;
    transport.catch(() => {
      if (this.#transport === transport) this.#transport = undefined;
    });
    return transport;
  }

  /** Discards the credentials that the server rejected. The next request reads new credentials. */
  expire(): void {
    this.#transport = undefined;
    this.#isRefused = true;
  }

  async destroy(): Promise<void> {
    await this.#dispatcher?.destroy();
  }

  /** Reads the credentials. If the read fails, such as while a file is replaced, reuses the last transport, or throws without one. */
  async #readOrReuse(): Promise<Transport> {
    try {
      this.#lastTransport = await this.#read();
    } catch (error) {
      if (this.#lastTransport === undefined) throw error;
    }
    return this.#lastTransport;
  }

  async #read(): Promise<Transport> {
    const isRefused = this.#isRefused;
    this.#isRefused = false;
    const credentials = await this.#config.readCredentials(isRefused);
    const { ca, cert, key } = credentials;
    const fingerprint = JSON.stringify([ca, cert, key]);
    if (this.#dispatcher === undefined || fingerprint !== this.#fingerprint) {
      void this.#dispatcher?.close();
      this.#dispatcher = createDispatcher(this.#config, credentials);
      this.#fingerprint = fingerprint;
    }
    return { dispatcher: this.#dispatcher, headers: authHeaders(this.#config, credentials) };
  }
}

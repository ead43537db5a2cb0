// SPDX-License-Identifier: Apache-2.0
// Serves virt-api over TLS for tests, with the front proxy of an API server.
import { randomUUID } from "node:crypto";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock, createFiles } from "@patchbay/os";
import {
  createAuthority,
  issueCertificate,
  type Authority,
  type CertificateUsage,
  type IssuedCertificate,
} from "@patchbay/pki";
import type { Store } from "@patchbay/core/interfaces";
import { createFakeStore } from "@patchbay/kube/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import type { Decision } from "../admission/review.ts";
import { createApp } from "../http/app.ts";
import { certificateInFiles, ClientAuthority, startServer, trustInFile } from "@patchbay/daemon";
import { depsOn } from "./deps.ts";

/** Callers: the API server as front proxy or webhook client, another client of its CA, a client of another CA, or no certificate. */
export type Caller = "apiserver" | "webhooks" | "server" | "otherCa" | "anonymous";

/** Response of virt-api. `body` is parsed if it is JSON. */
export interface Answer {
  readonly code: number;
  readonly body: unknown;
  readonly contentType: string;
}

export interface Bench {
  readonly port: number;
  /** Directory of its certificates. */
  readonly directory: string;
  /** Keys of the calls whose rate is limited, in their order. */
  readonly limitedKeys: readonly string[];
  /** Admission decisions since the start. */
  readonly decisions: readonly Decision[];
  /** Replaces the certificate, which virt-api reloads by itself. Returns the new one as PEM. */
  renew(): Promise<string>;
  send(
    method: string,
    path: string,
    options?: { readonly text?: string; readonly as?: Caller; readonly accept?: string },
  ): Promise<Answer>;
  stop(): Promise<void>;
}

const VALID_DAYS = 1;
const PROXY_NAME = "front-proxy-client";
const WEBHOOKS_NAME = "webhook-client";
const PRIVATE_DIRECTORY_MODE = 0o700;

function issue(
  authority: Authority,
  commonName: string,
  usage: CertificateUsage = "client",
): Promise<IssuedCertificate> {
  return issueCertificate(authority, {
    commonName,
    organizations: [],
    usages: [usage],
    dnsNames: ["localhost"],
    ipAddresses: ["127.0.0.1"],
    validDays: VALID_DAYS,
  });
}

async function issueAll(proxy: Authority) {
  const otherAuthority = await createAuthority("others-ca", createClock());
  return {
    apiserver: await issue(proxy, PROXY_NAME),
    webhooks: await issue(proxy, WEBHOOKS_NAME),
    server: await issue(proxy, PROXY_NAME, "server"),
    otherCa: await issue(otherAuthority, PROXY_NAME),
    anonymous: undefined,
  } satisfies Record<Caller, IssuedCertificate | undefined>;
}

interface Exchange {
  readonly port: number;
  readonly method: string;
  readonly path: string;
  readonly text: string | undefined;
  readonly accept?: string;
  readonly client: IssuedCertificate | undefined;
}

function exchange({ port, method, path, text, accept, client }: Exchange): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const request = httpsRequest(
    {
      host: "127.0.0.1",
      port,
      path,
      method,
      rejectUnauthorized: false,
      headers: {
        "x-remote-user": "alice",
        "x-remote-group": ["people", "shared"],
        ...(accept !== undefined && { accept }),
      },
      agent: false,
      ...(client === undefined ? {} : { cert: client.certPem, key: client.keyPem }),
    },
    (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => {
        const body: unknown = text.startsWith("{") ? JSON.parse(text) : text;
        const contentType = response.headers["content-type"] ?? "";
        resolve({ code: response.statusCode ?? 0, body, contentType });
      });
    },
  );
  request.on("error", reject).end(text);
  return promise;
}

async function writeCertificate(directory: string, { certPem, keyPem }: IssuedCertificate) {
  const [certFile, keyFile] = [join(directory, "cert.pem"), join(directory, "key.pem")];
  await createFiles().writeAtomic(keyFile, keyPem);
  await createFiles().writeAtomic(certFile, certPem);
  return { certFile, keyFile };
}

async function writeCertificates(server: IssuedCertificate, proxyCaPem: string) {
  const directory = join(tmpdir(), `virt-api-${randomUUID()}`);
  await createFiles().ensureDirectory(directory, PRIVATE_DIRECTORY_MODE);
  const files = await writeCertificate(directory, server);
  const caFile = join(directory, "front-proxy-ca.pem");
  await createFiles().writeAtomic(caFile, proxyCaPem);
  return { directory, files, caFile };
}

/** Starts virt-api on a free port. Calls `findStore` at each use, so that each test can have its own store. */
export async function startBench(findStore: () => Store): Promise<Bench> {
  const proxy = await createAuthority("front-proxy-ca", createClock());
  const clients = await issueAll(proxy);
  const own = await issue(proxy, "virt-api", "server");
  const { directory, files, caFile } = await writeCertificates(own, proxy.certPem);
  const log = createSilentLogger();
  const stop = new AbortController();
  const ownFiles = createFiles();
  const authorityOf = (name: string): ClientAuthority =>
    new ClientAuthority(trustInFile(ownFiles, { caFile, names: [name] }));
  const callers = {
    frontProxy: authorityOf(PROXY_NAME),
    webhooks: authorityOf(WEBHOOKS_NAME),
  };
  const decisions: Decision[] = [];
  const limitedKeys: string[] = [];
  const deps = {
    ...depsOn(createFakeStore(), {
      log,
      countDecision: (decision) => {
        decisions.push(decision);
      },
      changeRate: {
        proceed: (key) => {
          limitedKeys.push(key);
          return Promise.resolve(true);
        },
        tryProceed: () => 0,
      },
    }),
    get store() {
      return findStore();
    },
    get cachedReader() {
      return findStore();
    },
  };
  const { port, closed } = await startServer(
    createApp(deps, callers),
    {
      listenAddress: "127.0.0.1",
      port: 0,
      certificate: certificateInFiles(ownFiles, files),
      clientAuthorities: Object.values(callers),
    },
    { log, signal: stop.signal },
  );
  return {
    port,
    directory,
    decisions,
    limitedKeys,
    renew: async () => {
      const renewed = await issue(proxy, "virt-api", "server");
      await writeCertificate(directory, renewed);
      return renewed.certPem;
    },
    send: (method, path, { text, as = "apiserver", accept } = {}) =>
      exchange({
        port,
        method,
        path,
        text,
        client: clients[as],
        ...(accept !== undefined && { accept }),
      }),
    stop: async () => {
      stop.abort();
      await closed;
      await createFiles().remove(directory);
    },
  };
}

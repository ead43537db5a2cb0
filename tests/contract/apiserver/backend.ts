// SPDX-License-Identifier: Apache-2.0
// A real https server in place of a webhook or an aggregated API.
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { type Authority, issueCertificate } from "@patchbay/pki";
import type { Body } from "./harness.ts";

/** A webhook's request. */
export interface ReviewRequest {
  readonly uid: string;
  readonly kind: { readonly group: string; readonly version: string; readonly kind: string };
  readonly resource: {
    readonly group: string;
    readonly version: string;
    readonly resource: string;
  };
  readonly requestKind: ReviewRequest["kind"];
  readonly requestResource: ReviewRequest["resource"];
  readonly operation: string;
  readonly name?: string;
  readonly namespace?: string;
  /** Null at deletion; the tests that read it set it. */
  readonly object: Body;
  readonly oldObject: Body | null;
  readonly options: { readonly kind: string };
  readonly dryRun: boolean;
  readonly subResource?: string;
  readonly requestSubResource?: string;
  readonly userInfo: {
    readonly username: string;
    readonly uid?: string;
    readonly groups: readonly string[];
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
}

export interface Backend extends AsyncDisposable {
  readonly port: number;
  /** Takes over upgraded connections. */
  onUpgrade(listener: (request: IncomingMessage, socket: Duplex) => void): void;
}

/** Serves with a certificate for `dnsName` and 127.0.0.1; requests client certificates. */
export async function startBackend(
  authority: Authority,
  dnsName: string,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Backend> {
  const { certPem, keyPem } = await issueCertificate(authority, {
    commonName: dnsName,
    organizations: [],
    dnsNames: [dnsName],
    ipAddresses: ["127.0.0.1"],
    usages: ["server"],
    validDays: 1,
  });
  const server = createServer(
    {
      cert: certPem,
      key: keyPem,
      ca: authority.certPem,
      requestCert: true,
      rejectUnauthorized: false,
    },
    handle,
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const upgraded = new Set<Duplex>();
  return {
    port: typeof address === "object" ? (address?.port ?? 0) : 0,
    onUpgrade: (listener) => {
      server.on("upgrade", (request: IncomingMessage, socket: Duplex) => {
        upgraded.add(socket);
        listener(request, socket);
      });
    },
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      upgraded.forEach((socket) => socket.destroy());
      server.closeAllConnections();
      await closed;
    },
  };
}

/** CN of the client's certificate; empty if untrusted. */
export function clientNameOf(request: IncomingMessage): string {
  const { socket } = request;
  return socket instanceof TLSSocket && socket.authorized
    ? String(socket.getPeerCertificate().subject.CN)
    : "";
}

/** A webhook: `answer` returns the response without its uid. */
export async function startWebhook(
  authority: Authority,
  answer: (review: ReviewRequest) => Readonly<Record<string, unknown>>,
  dnsName = "hook.default.svc",
): Promise<Backend> {
  return startBackend(authority, dnsName, (request, response) => {
    void (async () => {
      let text = "";
      for await (const chunk of request) {
        text += String(chunk);
      }
      const review = (JSON.parse(text) as { request: ReviewRequest }).request;
      response.setHeader("content-type", "application/json");
      response.end(
        JSON.stringify({
          kind: "AdmissionReview",
          apiVersion: "admission.k8s.io/v1",
          response: { uid: review.uid, ...answer(review) },
        }),
      );
    })();
  });
}

/** A JSON patch in a webhook's response. */
export function patchAnswer(operations: readonly unknown[]) {
  return {
    allowed: true,
    patchType: "JSONPatch",
    patch: Buffer.from(JSON.stringify(operations)).toString("base64"),
  };
}

// SPDX-License-Identifier: Apache-2.0
// The HTTPS server that virt-api calls for guests of this node.
import type { Duplex } from "node:stream";
import {
  type CaptureRequest,
  type StreamRequest,
  DOCTOR,
  GUEST_REQUESTS,
  parseCapturePath,
  parseDoctorPath,
  parseGuestRequest,
  parseGuestStream,
  STREAM_PROTOCOL,
} from "@patchbay/core/guest";
import { CATALOGUE, isAppError, type Logger } from "@patchbay/base";
import {
  STATUS_CODES,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import {
  certificateInFiles,
  ClientAuthority,
  startServer,
  trustInFile,
  type RunningServer,
} from "@patchbay/daemon";
import { createFiles } from "@patchbay/os";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { ExamineGuest } from "./guest-doctor.ts";
import type { RequestGuest } from "./guest-requests.ts";
import type { OpenCapture } from "./guest-captures.ts";
import type { OpenGuestStream } from "./guest-streams.ts";

type StreamKind = (StreamRequest | CaptureRequest)["stream"];

/** Maximum console output buffered for a slow client, in bytes. The client is informed when further output is dropped. */
const CONSOLE_BUFFER_MAX = 1024 * 1024;

/** Copies the console's output. Keeps reading even if the client does not, because the guest would block on a full console. */
function copyConsole(from: Duplex, to: Duplex): void {
  let dropped = 0;
  from.on("data", (chunk: Buffer) => {
    if (to.writableLength > CONSOLE_BUFFER_MAX) {
      dropped += chunk.length;
      return;
    }
    if (dropped > 0) to.write(`\r\n[${String(dropped)} bytes of console output were dropped]\r\n`);
    dropped = 0;
    to.write(chunk);
  });
  from.resume();
}

/** Copies data in both directions until one side ends, and then delivers buffered data. */
export function joinStreams(stream: StreamKind, guest: Duplex, client: Duplex): void {
  if (stream === "console") copyConsole(guest, client);
  else guest.pipe(client, { end: false });
  client.pipe(guest, { end: false });
  for (const [from, to] of [
    [guest, client],
    [client, guest],
  ] as const) {
    from.on("error", () => from.destroy());
    from.on("end", () => to.end());
    from.on("close", () => {
      to.end();
      // If the client has closed, closes the guest's stream. If the guest has closed, discards input of the client,
      // because the client's stream would not end while input is unread.
      if (to === guest) guest.destroy();
      else client.resume();
    });
  }
}

interface ServerSettings {
  readonly listenAddress: string;
  /** TCP port; 0 selects a free port. */
  readonly port: number;
  readonly certFile: string;
  readonly keyFile: string;
  readonly clientCaFile: string;
  readonly clientName: string;
}

interface ServerDeps {
  readonly request: RequestGuest;
  readonly open: OpenGuestStream;
  readonly capture: OpenCapture;
  readonly examine: ExamineGuest;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

function send(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** Converts an error to a response. Errors without a code get a general message, because their messages could disclose internal details. */
function toResponseError(error: unknown): { readonly code: number; readonly message: string } {
  return isAppError(error)
    ? { code: CATALOGUE[error.code].http, message: error.message }
    : { code: 500, message: "internal error" };
}

interface Operation {
  readonly key: Required<ObjectKey>;
  readonly request: string;
  readonly isChange: boolean;
  readonly run: () => Promise<object>;
}

function findOperation(url: string, method: string, deps: ServerDeps): Operation | undefined {
  const doctor = method === "get" ? parseDoctorPath(url) : undefined;
  if (doctor !== undefined) {
    const { key, iface } = doctor;
    return { key, request: DOCTOR, isChange: false, run: () => deps.examine(key, iface) };
  }
  const { key, request } = parseGuestRequest(url) ?? {};
  if (key === undefined || request === undefined || GUEST_REQUESTS[request] !== method) {
    return undefined;
  }
  return { key, request, isChange: method === "put", run: () => deps.request(key, request) };
}

async function respond(
  { method = "", url = "" }: IncomingMessage,
  response: ServerResponse,
  deps: ServerDeps,
): Promise<void> {
  const { log } = deps;
  const operation = findOperation(url, method.toLowerCase(), deps);
  if (operation === undefined) {
    send(response, 404, { message: "there is no such request" });
    return;
  }
  const { key, request, isChange: changes } = operation;
  const fields = { vmi: `${key.namespace}/${key.name}`, request };
  try {
    const body = await operation.run();
    if (changes) log.info("performed a request of virt-api", fields);
    send(response, 200, body);
  } catch (error) {
    const { code, message } = toResponseError(error);
    if (code >= 500) log.warn("a request of virt-api failed", { ...fields, err: error });
    send(response, code, { message });
  }
}

function rejectUpgrade(socket: Duplex, code: number, message: string): void {
  const body = JSON.stringify({ message });
  const head = [
    `HTTP/1.1 ${String(code)} ${STATUS_CODES[code] ?? ""}`,
    "content-type: application/json",
    `content-length: ${String(Buffer.byteLength(body))}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}

interface StreamPair {
  readonly stream: StreamKind;
  readonly guest: Duplex;
  readonly client: Duplex;
}

const UPGRADE_RESPONSE = [
  "HTTP/1.1 101 Switching Protocols",
  "connection: Upgrade",
  `upgrade: ${STREAM_PROTOCOL}`,
];

/** Connects guest and client until one side ends. Aborting `signal` destroys both streams, because open streams keep the process alive. */
function connectStreams({ stream, guest, client }: StreamPair, signal: AbortSignal): void {
  const end = (): void => {
    guest.destroy();
    client.destroy();
  };
  // The client may have disconnected before the guest's stream was open.
  if (client.destroyed || signal.aborted) {
    end();
    return;
  }
  signal.addEventListener("abort", end, { once: true });
  guest.once("close", () => {
    signal.removeEventListener("abort", end);
  });
  client.write(`${UPGRADE_RESPONSE.join("\r\n")}\r\n\r\n`);
  joinStreams(stream, guest, client);
}

async function handleUpgrade(url: string, socket: Duplex, deps: ServerDeps): Promise<void> {
  const { open, capture, log, signal } = deps;
  const operation = parseGuestStream(url) ?? parseCapturePath(url);
  if (operation === undefined) {
    rejectUpgrade(socket, 404, "there is no such stream");
    return;
  }
  const { key, stream } = operation;
  const fields = { vmi: `${key.namespace}/${key.name}`, stream };
  try {
    const opened = operation.stream === "capture" ? capture(key, operation) : open(key, operation);
    const guest = await opened;
    log.info("opened a stream of a guest", fields);
    guest.once("close", () => {
      log.info("closed a stream of a guest", fields);
    });
    connectStreams({ stream, guest, client: socket }, signal);
  } catch (error) {
    const { code, message } = toResponseError(error);
    log.warn("a stream of a guest cannot be opened", { ...fields, err: error });
    rejectUpgrade(socket, code, message);
  }
}

/** Starts the server. A client without a valid certificate gets a TLS error or status 401. @throws AppError with OS_FILE_FAILED */
export function serveRequests(settings: ServerSettings, deps: ServerDeps): Promise<RunningServer> {
  const { listenAddress, port, certFile, keyFile, clientCaFile: caFile, clientName } = settings;
  const files = createFiles();
  const clientAuthority = new ClientAuthority(trustInFile(files, { caFile, names: [clientName] }));
  const onRequest: RequestListener = (request, response) => {
    request.resume(); // Discards the body, because no request needs one.
    if (clientAuthority.isTrustedClient(request)) void respond(request, response, deps);
    else send(response, 401, { message: "Unauthorized" });
  };
  const onUpgrade = (request: IncomingMessage, socket: Duplex): void => {
    socket.on("error", () => socket.destroy());
    if (clientAuthority.isTrustedClient(request))
      void handleUpgrade(request.url ?? "", socket, deps);
    else rejectUpgrade(socket, 401, "Unauthorized");
  };
  const certificate = certificateInFiles(files, { certFile, keyFile });
  return startServer(
    onRequest,
    {
      listenAddress,
      port,
      certificate,
      clientAuthorities: [clientAuthority],
      demandsCertificate: true,
    },
    { log: deps.log, signal: deps.signal, onUpgrade },
  );
}

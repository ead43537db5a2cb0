// SPDX-License-Identifier: Apache-2.0
// Network and VM selector that a Service requests in its annotations. Tenants can write the annotations, so the parser checks their syntax
// and limits the selector's length.
import { names } from "@patchbay/api";
import type { Service } from "@patchbay/api/kubernetes";
import { omitUndefined } from "@patchbay/base";
import { qualifyName } from "../nics/nics.ts";

export interface NetworkRequest {
  /** NAMESPACE/NAME of the NetworkAttachmentDefinition. */
  readonly network: string;
  readonly selector: ReadonlyMap<string, string>;
}

/** Parsed request. `none` means that the Service does not select VMs. */
type ServiceRequest =
  | { readonly kind: "requested"; readonly request: NetworkRequest }
  | { readonly kind: "refused"; readonly message: string }
  | { readonly kind: "none" };

const SELECTOR_LENGTH_MAX = 4096;
const LABELS_MAX = 32;
/** Syntax of NAME or NAMESPACE/NAME. Source: Kubernetes names (RFC 1123). */
const NETWORK_NAME =
  /^(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\/)?[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;
/** Syntax of a label key. Source: Kubernetes validation of label keys and values. */
const LABEL_KEY =
  /^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?)?$/;

function parseLabel(text: string): readonly [string, string] | undefined {
  const [key = "", value, ...extraParts] = text.split("=").map((part) => part.trim());
  if (value === undefined || extraParts.length > 0) return undefined;
  return LABEL_KEY.test(key) && LABEL_VALUE.test(value) ? [key, value] : undefined;
}

/** Parses comma-separated `KEY=VALUE` pairs. Returns undefined if the text is malformed, empty or too long, or repeats a key. */
function parseSelector(text: string): ReadonlyMap<string, string> | undefined {
  if (text.length > SELECTOR_LENGTH_MAX) return undefined;
  const labels = text.split(",").map(parseLabel);
  const validLabels = labels.filter((label) => label !== undefined);
  const selector = new Map(validLabels);
  const isValid = validLabels.length === labels.length && selector.size === labels.length;
  return isValid && labels.length <= LABELS_MAX ? selector : undefined;
}

function refused(message: string): ServiceRequest {
  return { kind: "refused", message };
}

const SELECTOR_FORM = "KEY=VALUE, or several with commas between them";

function parseRequest(
  network: string,
  selectorText: string,
  { metadata, spec }: Service,
): ServiceRequest {
  if (spec.type === "ExternalName")
    return refused("a Service of type ExternalName has no addresses");
  if (Object.keys(spec.selector ?? {}).length > 0) {
    const { SERVICE_SELECTOR_ANNOTATION: annotation } = names;
    return refused(
      `a Service with spec.selector leads to pods, not to networks: leave the selector out, and name the VMs in the annotation ${annotation}`,
    );
  }
  if (!NETWORK_NAME.test(network)) {
    return refused(
      `the annotation ${names.SERVICE_NETWORK_ANNOTATION} must be the name of a NetworkAttachmentDefinition, NAME or NAMESPACE/NAME`,
    );
  }
  const selector = parseSelector(selectorText);
  if (selector === undefined) {
    return refused(`the annotation ${names.SERVICE_SELECTOR_ANNOTATION} must be ${SELECTOR_FORM}`);
  }
  const networkRequest = { network: qualifyName(network, metadata.namespace ?? ""), selector };
  return { kind: "requested", request: networkRequest };
}

/** Parses the annotations. Returns `none` unless both are set, because other controllers use the network annotation too. */
export function parseServiceRequest(service: Service): ServiceRequest {
  const annotations = service.metadata.annotations ?? {};
  const network = annotations[names.SERVICE_NETWORK_ANNOTATION];
  const selector = annotations[names.SERVICE_SELECTOR_ANNOTATION];
  if (network === undefined || selector === undefined) return { kind: "none" };
  return parseRequest(network.trim(), selector, service);
}

export function requestedNetworks(service: Service): readonly string[] {
  const request = parseServiceRequest(service);
  return request.kind === "requested" ? [request.request.network] : [];
}

/** Trims a Service for the cache. A Service without a request retains only its identity and its conditions. */
export function trimService({ apiVersion, kind, metadata, spec, status }: Service): Service {
  const { name, namespace, uid, resourceVersion, deletionTimestamp } = metadata;
  const { type, selector, ports, publishNotReadyAddresses } = spec;
  const requests = [names.SERVICE_NETWORK_ANNOTATION, names.SERVICE_SELECTOR_ANNOTATION].flatMap(
    (annotation) => {
      const text = metadata.annotations?.[annotation];
      return text === undefined ? [] : [[annotation, text] as const];
    },
  );
  const annotations = requests.length === 2 ? Object.fromEntries(requests) : undefined;
  const observed = { name, namespace, uid, resourceVersion, deletionTimestamp, annotations };
  return {
    apiVersion,
    kind,
    metadata: omitUndefined(observed),
    spec: annotations ? omitUndefined({ type, selector, ports, publishNotReadyAddresses }) : {},
    ...(status && { status: omitUndefined({ conditions: status.conditions }) }),
  };
}

// SPDX-License-Identifier: Apache-2.0
// Where is the API server of the cluster that this process runs in?

/** Where Kubernetes mounts token and certificate. Source: Kubernetes "Accessing the API from within a Pod". */
export const SERVICE_ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";

/** The URL of the API server as the pod's environment tells it, or undefined outside a cluster. */
export function findClusterServer(): string | undefined {
  const host = process.env["KUBERNETES_SERVICE_HOST"];
  const port = process.env["KUBERNETES_SERVICE_PORT"];
  if (host === undefined || port === undefined) return undefined;
  return host.includes(":") ? `https://[${host}]:${port}` : `https://${host}:${port}`;
}

//! Filters, sorts and page tokens of the list requests.
